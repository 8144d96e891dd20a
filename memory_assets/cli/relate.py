"""`memory relate`."""

from dataclasses import asdict

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_json
from memory_assets.models import RelationType
from memory_assets.tenants import Tenant


@click.command("relate", epilog="Example: memory relate 6557 LEADS_TO 7342 --confidence 0.9")
@click.argument("source", metavar="A")
@click.argument("relation", metavar="TYPE", type=click.Choice([kind.value for kind in RelationType], case_sensitive=False))
@click.argument("target", metavar="B")
@click.option("--confidence", type=click.FloatRange(0, 1), default=1.0, show_default=True)
@click.option("--note", default="", help="Why.")
@common_options
def command(source: str, relation: str, target: str, confidence: float, note: str, tenant: Tenant, as_json: bool) -> None:
    """State how two memories relate. TYPE is one of the twelve relation types."""
    from memory_assets.stores.relations import StatedRelation

    stated = StatedRelation(
        tenant.memories.resolve(source).id,
        tenant.memories.resolve(target).id,
        RelationType(relation.upper()),
        confidence,
        note,
    )
    number = tenant.relations.state(stated)
    if as_json:
        print_json({"id": number} | asdict(stated))
    else:
        click.echo(f"{stated.source_id} {stated.type} {stated.target_id}")
