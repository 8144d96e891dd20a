"""`memory store`."""

import sys

import click

from memory_assets.cli.options import common_options, parse_time
from memory_assets.cli.output import memory_json, print_json
from memory_assets.models import Kind, NewMemory, Source
from memory_assets.tenants import Tenant


@click.command("store", epilog="Example: memory store 'Alice owns the billing export' --tag billing")
@click.argument("text")
@click.option("--tag", "tags", multiple=True, help="A tag of yours; kept beside the automatic ones.")
@click.option("--kind", type=click.Choice([kind.value for kind in Kind]), default=Kind.NOTE.value, show_default=True)
@click.option("--importance", type=click.FloatRange(0, 1), default=0.5, show_default=True)
@click.option("--project", default="", help="What it belongs to.")
@click.option("--author", default="", help="Who said it.")
@click.option("--session", default="", help="The conversation it came up in.")
@click.option("--created-at", help="When, as an ISO time; default: now.")
@common_options
def command(
    text: str,
    tags: tuple[str, ...],
    kind: str,
    importance: float,
    project: str,
    author: str,
    session: str,
    created_at: str | None,
    tenant: Tenant,
    as_json: bool,
) -> None:
    """Remember a text; `-` reads it from standard input."""
    from memory_assets.ingest.direct import store_memory
    from memory_assets.language.secrets import marks

    given = NewMemory(
        sys.stdin.read() if text == "-" else text,
        Source.CLI,
        Kind(kind),
        tags=tags,
        created_at=parse_time(created_at, "--created-at"),
        project=project,
        session=session,
        author=author,
        importance=importance,
    )
    memory = store_memory(tenant, given)
    if as_json:
        print_json(memory_json(memory))
    else:
        click.echo(f"Stored {memory.id}")
        if kinds := marks(memory.content):
            click.echo(f"  masked    {', '.join(kinds)}: its place holds the kind alone (MEMORY_SECRETS)")
        entities = [f"{entity.text} ({entity.type})" for entity in memory.entities]
        for name, values in (("tags", memory.tags), ("entities", entities), ("actions", memory.actions)):
            if values:
                click.echo(f"  {name:<9} {', '.join(values)}")
    tenant.memories.optimize()
