"""`memory store`."""

import sys
from typing import TYPE_CHECKING, Any

import click

from memory_assets.cli.options import answering, creating_option, say_time, timezone_option
from memory_assets.models import Kind, NewMemory, Source

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant


@click.command("store", epilog="Example: memory store 'Alice owns the billing export' --tag billing")
@click.argument("text", nargs=-1, required=True)
@click.option("--tag", "tags", multiple=True, help="A tag of yours; kept beside the automatic ones.")
@click.option("--kind", type=click.Choice([kind.value for kind in Kind]), default=Kind.NOTE.value, show_default=True)
@click.option("--importance", type=click.FloatRange(0, 1), default=0.5, show_default=True)
@click.option("--project", default="", help="What it belongs to.")
@click.option("--here", is_flag=True, help="It belongs to this directory's project.")
@click.option("--author", default="", help="Who said it.")
@click.option("--session", default="", help="The conversation it came up in.")
@click.option("--created-at", help="When, as an ISO time; default: now.")
@timezone_option
@creating_option
@answering()
def store(
    tenant: "Tenant", text: tuple[str, ...], kind: str, project: str, here: bool, created_at: str | None, **fields: Any
) -> "Answer":
    """Remember a text; `-` reads it from standard input."""
    from memory_assets.operations.store import store
    from memory_assets.sources.projects import project_at_hand

    at_hand = project_at_hand() if here else None
    memory = NewMemory(
        sys.stdin.read() if text == ("-",) else " ".join(text),
        Source.CLI,
        Kind(kind),
        created_at=say_time(created_at, "--created-at"),
        project=project or (at_hand.folder if at_hand else ""),
        **fields,
    )
    return store(tenant, memory)
