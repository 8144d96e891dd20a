"""`memory show`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import memory_json, print_json
from memory_assets.tenants import Tenant


@click.command("show", epilog="Example: memory show 6557406875026657   (the first digits are enough)")
@click.argument("reference", metavar="ID")
@common_options
def command(reference: str, tenant: Tenant, as_json: bool) -> None:
    """Show everything about one memory."""
    memory = tenant.memories.resolve(reference)
    fields = memory_json(memory)
    if as_json:
        print_json(fields)
        return
    click.secho(f"{memory.title or memory.kind}  {memory.id}", bold=True)
    click.echo(f"\n{memory.content}\n")
    fields["entities"] = ", ".join(f"{entity.text} ({entity.type})" for entity in memory.entities)
    for name in ("tags", "actions", "links"):
        fields[name] = ", ".join(fields[name])
    fields["metadata"] = ", ".join(f"{key}={value}" for key, value in memory.metadata.items())
    for name, value in fields.items():
        if name not in ("id", "title", "content", "active") and value not in ("", None):
            click.echo(f"  {name:<14} {value}")
