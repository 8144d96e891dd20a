"""Commands that change memories: edit, tag, relate, supersede, forget, undo, erase."""

import sys
from typing import TYPE_CHECKING

import click

from memory_assets.cli.options import answering, common_options, timezone_option
from memory_assets.cli.output import print_answer
from memory_assets.models import RelationType, Source

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant


@click.command("edit", epilog="Example: memory edit 65574068 'Priya owns the billing export since June'")
@click.argument("reference", metavar="ID")
@click.argument("text", required=False)
@timezone_option
@answering()
def edit(tenant: "Tenant", reference: str, text: str | None) -> "Answer":
    """Correct what a memory says. Without TEXT your editor opens; `-` reads standard input. The old version stays as history."""
    from memory_assets.operations.changes import edit
    from memory_assets.operations.given import find_memory

    if text is None:
        text = click.edit(find_memory(tenant, reference).content)
        if text is None:
            raise click.Abort
        text = text.removesuffix("\n")
    return edit(tenant, reference, sys.stdin.read() if text == "-" else text, source=Source.CLI)


@click.command("tag", epilog="Example: memory tag 65574068 billing --remove draft")
@click.argument("reference", metavar="ID")
@click.argument("add", metavar="[TAG]...", nargs=-1)
@click.option("--remove", multiple=True, metavar="TAG", help="Take this tag from it.")
@answering()
def tag(tenant: "Tenant", reference: str, add: tuple[str, ...], remove: tuple[str, ...]) -> "Answer":
    """Give a memory tags, take some from it, or see those that it has."""
    from memory_assets.operations.changes import tag

    return tag(tenant, reference, add=add, remove=remove)


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
@answering()
def relate(tenant: "Tenant", source: str, relation: str, target: str, confidence: float, note: str) -> "Answer":
    """State how two memories relate."""
    from memory_assets.operations.relate import relate

    return relate(tenant, source, RelationType(relation), target, confidence=confidence, note=note, stated_by=Source.CLI)


@click.command("supersede", epilog="Example: memory supersede 65574068 71203345   (and `memory undo 65574068` takes it back)")
@click.argument("old", metavar="OLD_ID")
@click.argument("new", metavar="NEW_ID")
@answering()
def supersede(tenant: "Tenant", old: str, new: str) -> "Answer":
    """Let the memory NEW_ID take the place of OLD_ID, which no longer holds and stays as history."""
    from memory_assets.operations.changes import supersede

    return supersede(tenant, old, new)


@click.command("forget", epilog="Example: memory forget 65574068   (and --restore to bring it back)")
@click.argument("reference", metavar="ID")
@click.option("--restore", "back", is_flag=True, help="Bring it back into recall.")
@answering()
def forget(tenant: "Tenant", reference: str, back: bool) -> "Answer":
    """Take a memory out of recall; --restore brings it back.

    Its text stays: in the store and its exports and backups, and in the catalog until the next run. `memory erase` removes a text for
    good.
    """
    from memory_assets.operations.changes import forget, restore

    return (restore if back else forget)(tenant, reference)


@click.command("undo", epilog="Example: memory undo 65574068")
@click.argument("reference", metavar="ID")
@answering()
def undo(tenant: "Tenant", reference: str) -> "Answer":
    """Take back the last change of a memory, once: that it was stored, edited, superseded, tagged, related, forgotten or restored."""
    from memory_assets.operations.undo import undo

    return undo(tenant, reference)


@click.command("erase", epilog="Example: memory erase 65574068   (asks first; --yes does not)")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--matching", metavar="TEXT", default="", help="All whose text or title holds TEXT, in any casing.")
@click.option("--source", type=click.Choice([source.value for source in Source]), help="All that came from there.")
@click.option("--before", metavar="TIME", help="All created before TIME, such as 2026-03-14 or 90d.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--trash-in-tana", is_flag=True, help="Move the nodes that mirror them to Tana's trash.")
@click.option("--allow-again", is_flag=True, help="Let the texts of these erased memories be stored and read again.")
@common_options
def erase(
    ids: tuple[str, ...],
    matching: str,
    source: str | None,
    before: str | None,
    yes: bool,
    trash_in_tana: bool,
    allow_again: bool,
    tenant: "Tenant",
    as_json: bool,
) -> None:
    """Remove memories for good: no file of the data folder holds their texts, and no source brings them back.

    Earlier versions go with them, and memories that say exactly the same. Conditions are combined. What others hold is named: files,
    backups, nodes in Tana. With --json and without --yes it shows what would go. There is no way back.
    """
    from memory_assets.operations import erase as erasing
    from memory_assets.operations.given import parse_time

    if allow_again:
        print_answer(erasing.allow_again(tenant, ids), tenant, as_json=as_json)
        return
    chosen = erasing.Chosen(ids, matching, Source(source) if source else None, parse_time(before, "--before"))
    if not yes:
        found = erasing.preview(tenant, chosen)
        print_answer(found, tenant, as_json=as_json)
        if as_json:
            return
        click.confirm("Erase for good?", abort=True)
    print_answer(erasing.erase(tenant, chosen, trash_in_tana=trash_in_tana), tenant, as_json=as_json)
