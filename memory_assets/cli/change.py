"""Commands that store and change memories: store, noted, edit, tag, relate, supersede, forget, undo, erase."""

from typing import TYPE_CHECKING, Any

import click

from memory_assets import operations
from memory_assets.cli.command import (
    command,
    creating_option,
    dry_run_option,
    print_answer,
    read_text,
    time_option,
    timezone_option,
)
from memory_assets.models import Kind, NewMemory, RelationType, Source

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant


@command("memory store 'Alice owns the billing export' --tag billing")
@click.argument("text", nargs=-1, required=True)
@click.option("--tag", "tags", multiple=True, help="A tag to add to the automatic ones.")
@click.option("--kind", type=click.Choice([kind.value for kind in Kind]), default=Kind.NOTE.value, show_default=True)
@click.option("--importance", type=click.FloatRange(0, 1), default=0.5, show_default=True)
@click.option("--project", default="", help="Project that it belongs to.")
@click.option("--here", is_flag=True, help="It belongs to this directory's project.")
@click.option("--author", default="", help="Who said it.")
@click.option("--session", default="", help="Conversation in which it came up.")
@time_option("--created-at", help="Time, as ISO 8601; default: now.")
@timezone_option
@creating_option
def store(tenant: "Tenant", text: tuple[str, ...], kind: str, project: str, here: bool, **fields: Any) -> "Answer":
    """Store a text as a memory; `-` reads it from standard input."""
    from memory_assets.sources.projects import current_project

    current = current_project() if here else None
    memory = NewMemory(
        read_text(" ".join(text)), Source.CLI, Kind(kind), project=project or (current.folder if current else ""), **fields
    )
    return operations.store.store(tenant, memory)


@command("memory noted --store 3f2a91c0   (the first digits are enough)")
@click.option("--store", "is_stored", is_flag=True, help="Store the sentences with these ids; without ids all.")
@click.option("--drop", "is_dropped", is_flag=True, help="Drop the sentences with these ids.")
@click.option(
    "--told", "session", is_flag=False, flag_value="", metavar="[SESSION]", help="What SESSION, or the last one, was told."
)
@click.argument("ids", nargs=-1)
def noted(tenant: "Tenant", session: str | None, ids: tuple[str, ...], *, is_stored: bool, is_dropped: bool) -> "Answer":
    """List sentences of earlier sessions that may be worth keeping; store or drop them. Ids never change, and each call may be repeated."""
    if is_stored + is_dropped + (session is not None) > 1:
        raise click.UsageError("Give only one of --store, --drop and --told.")
    if session is not None:
        return operations.noted.told(tenant, session)
    if is_stored:
        return operations.noted.store_noted(tenant, ids)
    if is_dropped:
        return operations.noted.drop_noted(tenant, ids)
    if ids:
        raise click.UsageError("Add --store or --drop to say what to do with these ids.")
    return operations.noted.noted(tenant)


@command("memory edit 65574068 'Priya owns the billing export since June'")
@click.argument("reference", metavar="ID")
@click.argument("text", required=False)
@timezone_option
def edit(tenant: "Tenant", reference: str, text: str | None) -> "Answer":
    """Correct a memory's text. Without TEXT your editor opens; `-` reads standard input. The old version stays as history."""
    if text is None:
        text = click.edit(operations.arguments.find_memory(tenant, reference).content)
        if text is None:
            raise click.Abort
        text = text.removesuffix("\n")
    return operations.changes.edit(tenant, reference, read_text(text), source=Source.CLI)


@command("memory tag 65574068 billing --remove draft")
@click.argument("reference", metavar="ID")
@click.argument("add", metavar="[TAG]...", nargs=-1)
@click.option("--remove", multiple=True, metavar="TAG", help="Remove this tag.")
def tag(tenant: "Tenant", reference: str, add: tuple[str, ...], remove: tuple[str, ...]) -> "Answer":
    """Add tags to a memory, remove tags from it, or list its tags."""
    return operations.changes.tag(tenant, reference, add=add, remove=remove)


@command(
    "memory relate 6557 LEADS_TO 7342 --confidence 0.9",
    help=f"State how two memories relate. TYPE is one of {', '.join(RelationType)}.",
)
@click.argument("source", metavar="A")
@click.argument("relation", metavar="TYPE", type=click.Choice([kind.value for kind in RelationType], case_sensitive=False))
@click.argument("target", metavar="B")
@click.option("--confidence", type=click.FloatRange(0, 1), default=1.0, show_default=True)
@click.option("--note", default="", help="Why.")
def relate(tenant: "Tenant", source: str, relation: str, target: str, confidence: float, note: str) -> "Answer":
    """State how two memories relate."""
    kind = RelationType(relation)
    return operations.relate.relate(tenant, source, kind, target, confidence=confidence, note=note, stated_by=Source.CLI)


@command("memory supersede 65574068 71203345   (and `memory undo 65574068` takes it back)")
@click.argument("old", metavar="OLD_ID")
@click.argument("new", metavar="NEW_ID")
def supersede(tenant: "Tenant", old: str, new: str) -> "Answer":
    """Replace the memory OLD_ID, which no longer holds, by NEW_ID; the old one stays as history."""
    return operations.changes.supersede(tenant, old, new)


@command("memory forget 65574068   (and --restore to bring it back)")
@click.argument("reference", metavar="ID")
@click.option("--restore", "back", is_flag=True, help="Bring it back into recall.")
def forget(tenant: "Tenant", reference: str, back: bool) -> "Answer":
    """Take a memory out of recall; --restore brings it back.

    Its text stays: in the store and its exports and backups, and in the catalog until the next run. `memory erase` removes a text for
    good.
    """
    return (operations.changes.restore if back else operations.changes.forget)(tenant, reference)


@command("memory undo 65574068")
@click.argument("reference", metavar="ID")
@dry_run_option
def undo(tenant: "Tenant", reference: str, dry_run: bool) -> "Answer":
    """Undo the last change of a memory, once: its storing, edit, supersession, tags, relation, forgetting or restoring."""
    return operations.undo.undo(tenant, reference, dry_run=dry_run)


@command("memory erase 65574068   (asks first; --yes does not)", prints=True)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--matching", metavar="TEXT", default="", help="All whose text or title contains TEXT, in any case.")
@click.option("--source", type=click.Choice([source.value for source in Source]), help="All from this source.")
@time_option("--before", metavar="TIME", help="All created before TIME, such as 2026-03-14 or 90d.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--trash-in-tana", is_flag=True, help="Move the nodes that mirror them to Tana's trash.")
@click.option("--allow-again", is_flag=True, help="Allow the texts of these erased memories to be stored and read again.")
def erase(
    tenant: "Tenant", ids: tuple[str, ...], yes: bool, trash_in_tana: bool, allow_again: bool, as_json: bool, **conditions: Any
) -> "Answer":
    """Remove memories for good: no file of the data folder contains their texts, and no source brings them back.

    Erases the IDs, and besides them the memories that meet all conditions; with them earlier versions and memories with exactly the
    same text. The answer names other places that still have the text: files, backups, nodes in Tana. With --json and without --yes it
    only shows what would go. There is no way back.
    """
    if allow_again:
        return operations.erase.allow_again(tenant, ids)
    if not yes:
        found = operations.erase.erase(tenant, ids, **conditions)
        if as_json:
            return found
        if found.memories:
            print_answer(found, tenant, as_json=False)
            click.confirm("Erase for good?", abort=True)
    return operations.erase.erase(tenant, ids, **conditions, trash_in_tana=trash_in_tana, of_machine=True, confirm=True)
