"""`memory consolidate`: the sleep cycles, now."""

from collections.abc import Callable
from typing import Any

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.group("consolidate", epilog="Example: memory consolidate forget --dry-run")
def command() -> None:
    """Run a sleep cycle now: decay, creative, cluster or forget. With --dry-run it only says what it would do."""


def _dry_run(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")(function)


@command.command("decay", epilog="Example: memory consolidate decay --dry-run")
@_dry_run
@common_options
def decay(dry_run: bool, tenant: Tenant, as_json: bool) -> None:
    """Daily: every memory's relevance as of now; archived memories that matter again come back."""
    from memory_assets.operations import consolidate

    print_answer(consolidate.decay(tenant, dry_run=dry_run), tenant, as_json=as_json)


@command.command("creative", epilog="Example: memory consolidate creative --dry-run")
@_dry_run
@common_options
def creative(dry_run: bool, tenant: Tenant, as_json: bool) -> None:
    """Weekly: edges between memories that are alike and were never connected."""
    from memory_assets.operations import consolidate

    print_answer(consolidate.creative(tenant, dry_run=dry_run), tenant, as_json=as_json)


@command.command("cluster", epilog="Example: memory consolidate cluster --json")
@_dry_run
@common_options
def cluster(dry_run: bool, tenant: Tenant, as_json: bool) -> None:
    """Monthly: dense groups of memories become patterns with a summary."""
    from memory_assets.operations import consolidate

    print_answer(consolidate.cluster(tenant, dry_run=dry_run), tenant, as_json=as_json)


@command.command("forget", epilog="Example: memory consolidate forget --dry-run")
@_dry_run
@click.option("--yes", is_flag=True, help="Even where that is more than MEMORY_FORGET_AT_MOST (a tenth) of the active memories.")
@common_options
@click.pass_context
def forget(context: click.Context, dry_run: bool, yes: bool, tenant: Tenant, as_json: bool) -> None:
    """Quarterly: archive what no longer matters; delete only if MEMORY_FORGET_DELETES is on."""
    from memory_assets.operations import consolidate

    cleaned = consolidate.clean(tenant, dry_run=dry_run, however_many=yes)
    print_answer(cleaned, tenant, as_json=as_json)
    context.exit(1 if cleaned.held_back and not dry_run else 0)
