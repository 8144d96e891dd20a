"""`memory learn`: check, review, apply, undo."""

import sys
from typing import TYPE_CHECKING, Any

import click

from memory_assets import operations
from memory_assets.cli.command import command, print_answer, say
from memory_assets.display import counted
from memory_assets.errors import NotFoundError

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.operations.learn import ProposalView
    from memory_assets.tenants import Tenant

_KEYS = "[a]ccept, [r]eject, [d]efer, [e]dit, [s]how evidence, [n]ext, [q]uit"


@click.group(epilog="Example: memory learn check   (then: memory learn review, memory learn apply)")
def learn() -> None:
    """Curate Claude Code's silos into PAI's canonical homes: check, review, apply; undo reverts the last apply."""


@command("memory learn check --json", group=learn)
def check(tenant: "Tenant") -> "Answer":
    """Read silos, reflections and ratings, and make proposals. No silo is changed."""
    return operations.learn.check(tenant)


@command("memory learn review --accept LP-001 --reject LP-004", group=learn, prints=True)
@click.option("--accept", metavar="ID", multiple=True, help="Accept; the next apply carries it out.")
@click.option("--reject", metavar="ID", multiple=True, help="Reject; it returns only with more evidence.")
@click.option("--defer", metavar="ID", multiple=True, help="Decide later.")
@click.option("--edit", metavar="ID", help="Write its text in your editor.")
@click.option("--deeper", is_flag=True, help="Also propose to merge similar user, project and reference entries.")
@click.option("--note", help="Note to keep with one decision.")
@click.option("--evidence", is_flag=True, help="Show the evidence for each proposal.")
def review(edit: str | None, evidence: bool, tenant: "Tenant", as_json: bool, **decided: Any) -> None:
    """Decide on proposals: one by one on a terminal, by their ids, or by editing PAI's review.md."""
    answer = operations.learn.review(tenant, **decided)
    if edit:
        _edit_proposal(tenant, next((each for each in answer.proposals if each.id == edit.upper()), None), edit)
        answer = operations.learn.review(tenant)
    if not (answer.decided or edit or as_json) and sys.stdin.isatty():
        _decide_one_by_one(tenant, answer.proposals)
        return
    print_answer(answer, tenant, as_json=as_json, evidence=evidence, body=evidence)


@command("memory learn apply --dry-run", group=learn, prints=True)
@click.option("--dry-run", is_flag=True, help="Show what would be written and deleted, and do nothing.")
@click.option("--verbose", is_flag=True, help="Name every file.")
def apply(tenant: "Tenant", dry_run: bool, verbose: bool, as_json: bool) -> None:
    """Write the canonical files, then delete the silo files that they replace. Safe to stop and run again at any time.

    Moves all user, project and reference memories, but feedback only if it was accepted. Files changed since the check stay.
    """
    print_answer(operations.learn.apply(tenant, confirm=not dry_run), tenant, as_json=as_json, verbose=verbose)


@command("memory learn undo", group=learn)
def undo(tenant: "Tenant") -> "Answer":
    """Undo the last apply: the silo files return, and the canonical files are as before."""
    return operations.learn.undo(tenant)


def _decide_one_by_one(tenant: "Tenant", proposals: "list[ProposalView]") -> None:
    skipped, undecided = 0, {operations.learn.Status.PENDING, operations.learn.Status.DEFERRED}
    waiting = [each for each in proposals if each.status in undecided]
    for number, proposal in enumerate(waiting, start=1):
        say(f"\n{number} of {len(waiting)}", bold=True)
        say(proposal.text(body=True))
        while True:
            key = click.prompt(_KEYS, default="n", show_default=False).strip().lower()[:1]
            if key == "s":
                say("\n".join(f"   - {each.line()}" for each in proposal.evidence))
            elif key == "e":
                _edit_proposal(tenant, proposal, proposal.id)
            elif key in {"a", "r", "d", "n", "q"}:
                break
        if key == "q":
            return
        if key == "n":
            skipped += 1
            continue
        chosen = [proposal.id]
        operations.learn.review(tenant, accept=chosen * (key == "a"), reject=chosen * (key == "r"), defer=chosen * (key == "d"))
    left = f"{counted(skipped, 'proposal is', 'proposals are')} left" if skipped else "Nothing is left to decide on"
    say(f"\n{left}; `memory learn apply` carries out the accepted proposals.")


def _edit_proposal(tenant: "Tenant", proposal: "ProposalView | None", reference: str) -> None:
    if proposal is None:
        raise NotFoundError(f"There is no open proposal {reference}; `memory learn review` lists them.")
    text = click.edit("\n\n".join(filter(None, (proposal.description, proposal.body))), extension=".md")
    if text and text.strip():
        operations.learn.reword(tenant, proposal.id, text)
