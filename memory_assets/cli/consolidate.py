"""`memory consolidate`: the sleep cycles, now."""

from typing import TYPE_CHECKING

import click

from memory_assets.cli.options import answering

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant

_dry_run = click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")


@click.group("consolidate", epilog="Example: memory consolidate forget --dry-run")
def consolidate() -> None:
    """Run a sleep cycle now: decay, creative, cluster or forget. With --dry-run it only says what it would do."""


@consolidate.command("decay", epilog="Example: memory consolidate decay --dry-run")
@_dry_run
@answering()
def decay(tenant: "Tenant", dry_run: bool) -> "Answer":
    """Daily: every memory's relevance as of now; archived memories that matter again come back."""
    from memory_assets.operations import consolidate

    return consolidate.decay(tenant, dry_run=dry_run)


@consolidate.command("creative", epilog="Example: memory consolidate creative --dry-run")
@_dry_run
@answering()
def creative(tenant: "Tenant", dry_run: bool) -> "Answer":
    """Weekly: edges between similar memories that no edge connects."""
    from memory_assets.operations import consolidate

    return consolidate.creative(tenant, dry_run=dry_run)


@consolidate.command("cluster", epilog="Example: memory consolidate cluster --json")
@_dry_run
@answering()
def cluster(tenant: "Tenant", dry_run: bool) -> "Answer":
    """Monthly: dense groups of memories become patterns with a summary."""
    from memory_assets.operations import consolidate

    return consolidate.cluster(tenant, dry_run=dry_run)


@consolidate.command("forget", epilog="Example: memory consolidate forget --dry-run")
@_dry_run
@click.option("--yes", is_flag=True, help="Even where that is more than MEMORY_FORGET_AT_MOST (a tenth) of the active memories.")
@answering()
def forget(tenant: "Tenant", dry_run: bool, yes: bool) -> "Answer":
    """Quarterly: archive memories of low relevance; delete only if MEMORY_FORGET_DELETES is on."""
    from memory_assets.operations import consolidate

    return consolidate.clean(tenant, dry_run=dry_run, however_many=yes)
