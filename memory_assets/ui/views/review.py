"""Review: proposals of `memory learn` and contradictions, decided on one by one or many at once; what apply will do, apply and undo."""

import hashlib
from typing import TYPE_CHECKING

from memory_assets import operations
from memory_assets.errors import ChangedMeanwhileError, InvalidInputError
from memory_assets.ui.page import Page, change, view

if TYPE_CHECKING:
    from starlette.responses import Response

    from memory_assets.operations.learn import ProposalView

_DECISIONS = ("accept", "reject", "defer")
_FACE = "ui"


@view("/review")
def review(page: Page) -> "Response":
    """Open proposals beside the silo texts they come from, and memories that contradict each other."""
    proposals = operations.learn.review(page.tenant, look=False).proposals if page.tenant.is_sources_tenant else []
    return page.render(
        "review.html",
        proposals=proposals,
        originals=operations.learn.silo_texts(page.tenant, [path for each in proposals for path in each.files]),
        digests={each.id: _digest(each) for each in proposals},
        conflicts=operations.conflicts.conflicts(page.tenant).conflicts,
    )


@change("/review/check")
def check(page: Page) -> "Response":
    """Look through silos, reflections and ratings for new proposals."""
    found = operations.learn.check(page.tenant)
    return page.redirect("/review", f"{len(found.proposals)} proposals are open.")


@change("/review/decide")
def decide(page: Page) -> "Response":
    """Accept, reject or defer the proposals that are ticked."""
    decision, chosen = page.text("decision"), page.texts("id")
    if decision not in _DECISIONS:
        raise InvalidInputError("Choose one of accept, reject and defer.")
    if not chosen:
        raise InvalidInputError("Tick the proposals to decide on.")
    _refuse_changed(page, chosen)
    accept, reject, defer = (chosen if decision == each else () for each in _DECISIONS)
    note = page.text("note") or None
    done = operations.learn.review(page.tenant, accept=accept, reject=reject, defer=defer, note=note)
    return page.redirect("/review", done.text(page.local))


@change("/review/{proposal}/edit")
def edit(page: Page) -> "Response":
    """Give a proposal another text."""
    proposal = page.path["proposal"]
    _refuse_changed(page, [proposal])
    operations.learn.reword(page.tenant, proposal, f"{page.text('description')}\n\n{page.text('body')}")
    return page.redirect("/review", f"{proposal} says what you wrote.")


@view("/review/apply", work="write")
def preview(page: Page) -> "Response":
    """What apply would write, delete and leave."""
    return page.render("apply.html", plan=operations.learn.apply(page.tenant, dry_run=True))


@change("/review/apply")
def apply(page: Page) -> "Response":
    """Do what was accepted."""
    return page.redirect("/review/applied", operations.learn.apply(page.tenant).text(page.local))


@view("/review/applied")
def applied(page: Page) -> "Response":
    """What the applies did, newest first, and an undo of the last one."""
    changes = operations.show.recent_changes(page.tenant, limit=100).changes
    return page.render("applied.html", applies=[each for each in changes if each.did.startswith("learn apply")])


@change("/review/undo")
def undo(page: Page) -> "Response":
    """Take the last apply back."""
    return page.redirect("/review/applied", operations.learn.undo(page.tenant).text(page.local))


@change("/conflicts")
def decide_conflict(page: Page) -> "Response":
    """Decide which of two memories holds, or that both do."""
    older, newer, decision = page.text("older"), page.text("newer"), page.text("decision")
    if not (older.isdecimal() and newer.isdecimal()):
        raise InvalidInputError("This form names no memories; open the page again.")
    one, other = int(older), int(newer)
    match decision:
        case "newer":
            operations.changes.supersede(page.tenant, one, other)
            return page.redirect("/review#conflicts", "The newer one holds; the older one is history.", undo=one)
        case "both":
            operations.conflicts.decide_both_hold(page.tenant, one, other, stated_by=_FACE)
            return page.redirect("/review#conflicts", "Both hold. Every run respects it.", undo=one)
        case "forget older" | "forget newer":
            forgotten = one if decision == "forget older" else other
            operations.changes.forget(page.tenant, forgotten)
            return page.redirect("/review#conflicts", "The wrong one is forgotten.", undo=forgotten)
        case _:
            raise InvalidInputError("Choose what holds.")


def _refuse_changed(page: Page, chosen: list[str]) -> None:
    """Refuse to decide on a proposal that is not what the page showed."""
    known = {each.id: each for each in operations.learn.review(page.tenant, look=False).proposals}
    for proposal in chosen:
        now = known.get(proposal)
        if now is None or _digest(now) != page.text(f"seen {proposal}"):
            says = f" It says now: {now.description} ({now.status.lower()})." if now else " It is not open any more."
            raise ChangedMeanwhileError(f"{proposal} was changed since you opened the page, and nothing was decided.{says}")


def _digest(proposal: "ProposalView") -> str:
    """What changes with anything of a proposal that a person decides on."""
    said = proposal.model_dump_json(include={"status", "name", "description", "body", "files", "note"})
    return hashlib.sha256(said.encode()).hexdigest()[:24]
