"""`memory show`."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import memory_json, print_json
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.graph.relevance import Factors


@click.command("show", epilog="Example: memory show 6557406875026657   (the first digits are enough)")
@click.argument("reference", metavar="ID")
@common_options
def command(reference: str, tenant: Tenant, as_json: bool) -> None:
    """Show everything about one memory."""
    from memory_assets.graph.relevance import explain

    memory = tenant.memories.resolve(reference)
    fields = memory_json(memory)
    factors = explain(tenant.catalog, memory.id)
    if as_json:
        print_json(fields | {"relevance": asdict(factors) if factors else None})
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
    _print_relevance(factors)


def _print_relevance(factors: "Factors | None") -> None:
    if factors is None:
        click.echo("\n  relevance      not scored: only active memories are, by `memory run` or `memory consolidate decay`")
        return
    click.echo(f"\n  relevance      {factors.relevance:.3f} as of {factors.computed_at:%Y-%m-%d}, the product of")
    age = (factors.computed_at - factors.fresh_at).total_seconds() / 86_400
    unread = (factors.computed_at - factors.accessed_at).total_seconds() / 86_400
    for name, value, why in (
        ("decay", factors.decay, f"{max(0.0, age):.0f} days since {factors.fresh_at:%Y-%m-%d}: {factors.fresh_because}"),
        ("access", factors.access, f"{factors.accesses} recalls, last access {max(0.0, unread):.0f} days before"),
        ("density", factors.density, f"joined to {factors.edges} others"),
        ("importance", factors.importance, f"0.5 + {factors.importance - 0.5:.2f}"),
        ("confidence", factors.confidence, f"0.7 + 0.3 x {(factors.confidence - 0.7) / 0.3:.2f}"),
    ):
        click.echo(f"    {name:<12} {value:6.3f}  {why}")
