"""Assemble a document of everything relevant about some topics, within a budget of tokens."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from memory_assets.context import quoting
from memory_assets.context.assembly import Context, Request, assemble
from memory_assets.context.document import Document, Json, Markdown, list_warnings
from memory_assets.context.filling import Fitted, fit
from memory_assets.context.lenses import choose_lens, known_lenses
from memory_assets.context.model import Node, Ranked
from memory_assets.context.store import MIN_ID_DIGITS, StoreReader
from memory_assets.context.tana import JoinedReader
from memory_assets.errors import InvalidInputError, NotFoundError, StoreError
from memory_assets.language.validation import is_blank, reject_unstorable
from memory_assets.operations.answers import Answer, LocalTime, View
from memory_assets.operations.arguments import digits_of, find_memory
from memory_assets.operations.fields import Name, Whole
from memory_assets.tana.client import TanaClient
from memory_assets.tana.errors import TanaError
from memory_assets.tana.reading import read_about
from memory_assets.tenants import Tenant

Format = Literal["markdown", "json"]
MOST_TOPICS = 10
LONGEST_TOPIC = 2_000
_PATIENCE = 1.0
_MOST_EXPLAINED = 50
"""At most so many nodes are explained for each reason."""


class FoundNode(View):
    """A memory, name, pattern or Tana node that was found, and how much of it the document contains."""

    id: str
    name: str
    category: str
    type: str
    score: float | None
    """None if it was left out before it was scored."""
    distance: int | None
    """Links from the nodes that the topic names."""
    section: str
    """The heading above it; empty if it was left out before."""
    why: tuple[str, ...]
    """The path that leads to it, and reasons against it; empty for hits of a search."""
    told: Literal["text", "name", "not"]
    reason: str
    """Why its text is left out; empty if it is not, and without `explain`."""


class AssembledContext(Answer):
    """A document about some topics, for an assistant."""

    document: str
    """Markdown or one JSON object, byte for byte the same over the command line, HTTP and MCP."""
    tokens: int
    warnings: tuple[str, ...]
    warned: bool
    """Whether the document itself contains the warnings."""
    found: tuple[FoundNode, ...] = Field(default=(), exclude=True)
    """All nodes that were found, the most relevant first, in the document or not; not part of the JSON."""

    def text(self, local: LocalTime) -> str:
        return self.document


def context(
    tenant: Tenant,
    topics: Annotated[
        Sequence[Annotated[str, Field(min_length=1, max_length=LONGEST_TOPIC)]],
        Field(min_length=1, max_length=MOST_TOPICS, description="Ids, names or questions; several are blended."),
    ],
    *,
    depth: Annotated[int, Field(ge=1, le=5), Whole] = 2,
    max_tokens: Annotated[int, Field(ge=1, le=100_000, description="Never exceeded."), Whole] = 4_000,
    lens: Name = "general",
    form: Annotated[Format, Field(alias="format")] = "markdown",
    include_fields: bool = True,
    history: Annotated[bool, Field(description="Include older versions.")] = False,
    offline: Annotated[bool, Field(description="Use the last reading of Tana.")] = False,
    explain: bool = False,
) -> AssembledContext:
    """Return everything relevant about some topics within a budget of tokens, as Markdown or a JSON object.

    `depth` is the number of links to follow. `max_tokens` limits the whole document; below 500 it lists only names and types. With
    `explain`, the answer says why texts are left out.
    """
    known = tuple(_resolve_id(tenant, topic) for topic in _check_topics(topics))
    request = Request(known, depth, max_tokens, choose_lens(lens), include_fields, history)
    reader = _open_reader(tenant, request.topics, offline=offline)
    found = replace(assemble(reader, request), zone=LocalTime.of(tenant.settings).zone)
    document = Json(found) if form == "json" else Markdown(found)
    fitted = fit(document, max_tokens)
    return AssembledContext(
        document=fitted.text,
        tokens=fitted.tokens,
        warnings=tuple(list_warnings(found)),
        warned=fitted.framed,
        found=tuple(_view_node(each, document, fitted, explain=explain) for each in found.nodes)
        + (_find_left_out(reader, found) if explain else ()),
    )


def _find_left_out(reader: StoreReader, found: Context) -> tuple[FoundNode, ...]:
    """Return the nodes left out before scoring: duplicates, superseded ones, and those that the lens does not follow."""
    told = {ranked.node.id: ranked.node for ranked in found.nodes}
    left: dict[str, FoundNode] = {}

    def leave(node: Node, reason: str) -> None:
        given = {"score": None, "distance": None, "section": "", "why": (), "told": "not"}
        left.setdefault(node.id, FoundNode.of(node, category=node.category.value, reason=reason, **given))

    def called(number: str) -> str:
        return quoting.name(told[number].name) if number in told else f"id {number}"

    repeating = reader.same | dict(found.repeating)
    for number, node in reader.nodes(list(repeating)[:_MOST_EXPLAINED]).items():
        if node.id not in told:
            leave(node, f"said by {called(repeating[number])}")
    for number, versions in reader.history(list(told)).items():
        for version in versions:
            leave(version, f"superseded by {called(number)}")
    for node in reader.nodes(list(found.unfollowed)[:_MOST_EXPLAINED]).values():
        leave(node, f"the lens {found.request.lens.name} does not follow {found.unfollowed[node.id]}")
    return tuple(left.values())


def _view_node(ranked: Ranked, document: Document, fitted: Fitted, *, explain: bool) -> FoundNode:
    node = ranked.node
    how: Literal["text", "name", "not"] = "text" if node.id in fitted.texts else "name" if node.id in fitted.named else "not"
    return FoundNode.of(
        node,
        category=node.category.value,
        score=ranked.score,
        distance=ranked.visit.hops,
        section=document.section(ranked),
        why=tuple(document.why(ranked)),
        told=how,
        reason=fitted.reason(ranked) if explain and how != "text" else "",
    )


def _open_reader(tenant: Tenant, topics: Sequence[str], *, offline: bool) -> StoreReader:
    """Return a reader of the store and of what is known of Tana, which is first asked about the topics if this tenant uses it."""
    warnings = []
    is_live = False
    if not offline and tenant.is_sources_tenant and (tenant.settings.tana_token or _knows_tana(StoreReader(tenant))):
        try:
            client = TanaClient.open(tenant.settings)
            if not tenant.exists:  # reading must not make it
                warnings.append("Tana was not asked, because nothing is remembered yet; run `memory run`.")
            elif is_live := client.health(timeout=_PATIENCE):
                read_about(tenant, client, topics)
            else:
                warnings.append("Tana is not ready yet; the last reading answers instead.")
        except (TanaError, StoreError) as error:
            is_live = False
            warnings.append(f"{error} The last reading answers instead.")
    store = StoreReader(tenant)
    reader = JoinedReader(tenant, is_live=is_live) if is_live or _knows_tana(store) else store
    reader.warnings += warnings
    return reader


def _knows_tana(reader: StoreReader) -> bool:
    return reader.catalog.tana.table.num_rows > 0


def _check_topics(topics: Sequence[str]) -> tuple[str, ...]:
    if not 1 <= len(topics) <= MOST_TOPICS:
        raise InvalidInputError(f"{len(topics)} topics were given; give 1 to {MOST_TOPICS}.")
    for topic in topics:
        reject_unstorable(topic, "topic")
        if is_blank(topic):
            raise InvalidInputError("A topic is blank; give words, a name or an id.")
        if len(topic) > LONGEST_TOPIC:
            raise InvalidInputError(f"A topic has {len(topic):,} characters; give at most {LONGEST_TOPIC:,}.")
    return tuple(topic.strip() for topic in topics)


def _resolve_id(tenant: Tenant, topic: str) -> str:
    """Return the id that a topic is, in full, in any form that outputs show; another topic unchanged."""
    digits = digits_of(topic)
    if not digits.isdecimal() or len(digits) < MIN_ID_DIGITS:
        return topic
    with suppress(NotFoundError):
        return str(find_memory(tenant, digits).id)
    return digits


def list_lenses() -> dict[str, str]:
    """Return the names of all lenses and their descriptions."""
    return {name: lens.description for name, lens in known_lenses().items()}
