"""Views of review: decisions on proposals of `memory learn` and on contradictions, and the preview, run and undo of apply."""

import hashlib
from collections.abc import Sequence
from itertools import accumulate
from urllib.parse import quote_plus

from starlette.responses import Response

from memory_assets import operations
from memory_assets.errors import ChangedMeanwhileError, InvalidInputError
from memory_assets.operations.learn import ProposalView
from memory_assets.ui.page import Page, change, view
from memory_assets.ui.views.memory import FACE, read_seen, show_changed

_DECISIONS = ("accept", "reject", "defer")
_MAX_SHOWN = 50


@view("/review")
def review(page: Page) -> Response:
    found = operations.learn.review(page.tenant, look=False).proposals if page.tenant.is_sources_tenant else []
    proposals = _first_that_fit(found, page.tenant.settings.max_body_bytes // 2)
    return page.render(
        "review.html",
        count=len(found),
        proposals=proposals,
        originals=operations.learn.silo_texts(page.tenant, [path for each in proposals for path in each.files]),
        digests={each.id: _digest(each) for each in proposals},
        texts={each.id: _text_digest(each.description, each.body) for each in proposals},
        contradicting=operations.conflicts.conflicts(page.tenant, limit=_MAX_SHOWN),
    )


@change("/review/check")
def check(page: Page) -> Response:
    found = operations.learn.check(page.tenant)
    return page.redirect("/review", f"{len(found.proposals)} proposals are open.")


@change("/review/deeper")
def check_deeper(page: Page) -> Response:
    """Also search for similar entries that were passed through."""
    found = operations.learn.review(page.tenant, deeper=True)
    return page.redirect("/review", f"{len(found.proposals)} proposals are open.")


@change("/review/decide")
def decide(page: Page) -> Response:
    decision, chosen, written = page.text("decision"), page.texts("id"), _edited_texts(page)
    if decision not in (*_DECISIONS, "edit"):
        raise InvalidInputError("Choose one of accept, reject, defer and edit.")
    if decision == "edit" and not written:
        raise InvalidInputError("Write another text for a proposal first.")
    note = page.text("note") or None
    if decision != "edit":
        if not chosen:
            raise InvalidInputError("Tick the proposals to decide on.")
        operations.learn.require_one_decision(note, chosen)
    _refuse_changed(page, [*written, *(chosen if decision != "edit" else ())])
    if written:
        operations.learn.reword_all(page.tenant, written)
    messages = [f"{', '.join(written)}: saved what you wrote."] if written else []
    if decision != "edit":
        accept, reject, defer = (chosen if decision == each else () for each in _DECISIONS)
        done = operations.learn.review(page.tenant, accept=accept, reject=reject, defer=defer, note=note)
        messages.append(done.text(page.local))
    return page.redirect("/review", "\n".join(messages))


@view("/review/apply", work="write")
def preview(page: Page) -> Response:
    """Show what apply would write, delete and leave."""
    return page.render("apply.html", plan=operations.learn.apply(page.tenant))


@change("/review/apply")
def apply(page: Page) -> Response:
    return page.redirect("/review/applied", operations.learn.apply(page.tenant, confirm=True).text(page.local))


@view("/review/applied")
def applied(page: Page) -> Response:
    changes = operations.show.recent_changes(page.tenant, limit=100).changes
    return page.render("applied.html", applies=[each for each in changes if each.did.startswith("learn apply")])


@change("/review/undo")
def undo(page: Page) -> Response:
    return page.redirect("/review/applied", operations.learn.undo(page.tenant).text(page.local))


@change("/conflicts")
def decide_conflict(page: Page) -> Response:
    """Decide which of two contradicting memories holds, or that both do."""
    one, other = page.number("older"), page.number("newer")
    if one is None or other is None:
        raise InvalidInputError("This form names no memories; open the page again.")
    changed = one
    seen, seen_newer = read_seen(page, "seen older"), read_seen(page, "seen newer")
    try:
        match page.text("decision"):
            case "newer":
                operations.changes.supersede(page.tenant, one, other, seen=seen, seen_new=seen_newer)
                message = "The newer one holds; the older one is history."
            case "both":
                operations.conflicts.decide_both_hold(page.tenant, one, other, stated_by=FACE, seen=seen, seen_target=seen_newer)
                message = "Both hold. Every run respects it."
            case "forget older":
                operations.arguments.find_memory(page.tenant, other, seen_newer)
                operations.changes.forget(page.tenant, one, seen=seen)
                message = "The older one is forgotten."
            case "forget newer":
                operations.arguments.find_memory(page.tenant, one, seen)
                operations.changes.forget(page.tenant, other, seen=seen_newer)
                message, changed = "The newer one is forgotten.", other
            case _:
                raise InvalidInputError("Choose what holds.")
    except ChangedMeanwhileError:
        return show_changed(page, [one, other])
    return page.redirect("/review", message, undo=operations.arguments.find_memory(page.tenant, changed))


def _first_that_fit(proposals: Sequence[ProposalView], most_bytes: int) -> Sequence[ProposalView]:
    """Return the first proposals, at least one, whose texts take at most `most_bytes` in a form; an edit may make them longer."""
    sizes = accumulate(len(quote_plus(f"{each.description}{each.body}")) for each in proposals)
    fitting = sum(size <= most_bytes for size in sizes)
    return proposals[: min(max(fitting, 1), _MAX_SHOWN)]


def _refuse_changed(page: Page, chosen: list[str]) -> None:
    """Raise ChangedMeanwhileError if a proposal differs from the version that the page showed."""
    known = {each.id: each for each in operations.learn.review(page.tenant, look=False).proposals}
    for proposal in chosen:
        now = known.get(proposal)
        if now is None or _digest(now) != page.text(f"seen {proposal}"):
            says = f" It says now: {now.description} ({now.status.lower()})." if now else " It is not open any more."
            raise ChangedMeanwhileError(f"{proposal} was changed since you opened the page, and nothing was decided.{says}")


def _edited_texts(page: Page) -> dict[str, str]:
    """Return proposal -> text, for the texts edited on the page."""
    written = {}
    for field, shown in page.form.items():
        name, _, proposal = field.partition(" ")
        description, body = page.text(f"description {proposal}"), page.text(f"body {proposal}")
        if name == "text" and _text_digest(description, body) != shown:
            written[proposal] = f"{description}\n\n{body}"
    return written


def _text_digest(description: str, body: str) -> str:
    """Return a digest of a proposal's words."""
    return hashlib.sha256(f"{' '.join(description.split())}\n{body.strip()}".encode()).hexdigest()[:24]


def _digest(proposal: ProposalView) -> str:
    """Return a digest of everything in a proposal that affects a person's decision."""
    shown = proposal.model_dump_json(include={"status", "name", "description", "body", "files", "note"})
    return hashlib.sha256(shown.encode()).hexdigest()[:24]
