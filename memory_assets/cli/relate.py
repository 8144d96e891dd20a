"""`memory relate`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.models import RelationType, Source
from memory_assets.tenants import Tenant


@click.command(
    "relate",
    help=f"State how two memories relate. TYPE is one of {', '.join(RelationType)}.",
    epilog="Example: memory relate 6557 LEADS_TO 7342 --confidence 0.9",
)
@click.argument("source", metavar="A")
@click.argument("relation", metavar="TYPE", type=click.Choice([kind.value for kind in RelationType], case_sensitive=False))
@click.argument("target", metavar="B")
@click.option("--confidence", type=click.FloatRange(0, 1), default=1.0, show_default=True)
@click.option("--note", default="", help="Why.")
@common_options
def command(source: str, relation: str, target: str, confidence: float, note: str, tenant: Tenant, as_json: bool) -> None:
    """State how two memories relate."""
    from memory_assets.operations.relate import relate

    stated = relate(
        tenant, source, RelationType(relation.upper()), target, confidence=confidence, note=note, stated_by=Source.CLI
    )
    print_answer(stated, tenant, as_json=as_json)
