"""`memory store`."""

import sys

import click

from memory_assets.cli.options import creating_options, timezone_option
from memory_assets.cli.output import print_answer
from memory_assets.models import Kind, NewMemory, Source
from memory_assets.tenants import Tenant


@click.command("store", epilog="Example: memory store 'Alice owns the billing export' --tag billing")
@click.argument("text")
@click.option("--tag", "tags", multiple=True, help="A tag of yours; kept beside the automatic ones.")
@click.option("--kind", type=click.Choice([kind.value for kind in Kind]), default=Kind.NOTE.value, show_default=True)
@click.option("--importance", type=click.FloatRange(0, 1), default=0.5, show_default=True)
@click.option("--project", default="", help="What it belongs to.")
@click.option("--here", is_flag=True, help="It belongs to this directory's project.")
@click.option("--author", default="", help="Who said it.")
@click.option("--session", default="", help="The conversation it came up in.")
@click.option("--created-at", help="When, as an ISO time; default: now.")
@timezone_option
@creating_options
def command(
    text: str,
    tags: tuple[str, ...],
    kind: str,
    importance: float,
    project: str,
    here: bool,
    author: str,
    session: str,
    created_at: str | None,
    timezone: str | None,
    tenant: Tenant,
    as_json: bool,
) -> None:
    """Remember a text; `-` reads it from standard input."""
    from memory_assets.operations.given import parse_time
    from memory_assets.operations.store import store
    from memory_assets.sources.projects import project_at_hand

    at_hand = project_at_hand() if here else None
    given = NewMemory(
        sys.stdin.read() if text == "-" else text,
        Source.CLI,
        Kind(kind),
        tags=tags,
        created_at=parse_time(created_at, "--created-at"),
        project=project or (at_hand.folder if at_hand else ""),
        session=session,
        author=author,
        importance=importance,
    )
    print_answer(store(tenant, given), tenant, timezone, as_json=as_json)
