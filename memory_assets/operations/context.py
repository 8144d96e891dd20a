"""Everything relevant about a topic, within a budget of tokens."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from memory_assets.context import quoting
from memory_assets.context.assembly import Context, Request, assemble
from memory_assets.context.document import Document, Fitted, Json, Markdown, fit, list_warnings
from memory_assets.context.lenses import choose_lens, known_lenses
from memory_assets.context.model import Node, Ranked
from memory_assets.context.store import StoreReader
from memory_assets.context.tana import JoinedReader
from memory_assets.errors import InvalidInputError, StoreError
from memory_assets.language.validation import is_blank, reject_unstorable
from memory_assets.operations.answers import Answer, LocalTime, View
from memory_assets.operations.fields import Name, Whole
from memory_assets.tana.client import TanaClient
from memory_assets.tana.errors import TanaError
from memory_assets.tana.reading import read_about
from memory_assets.tenants import Tenant

Format = Literal["markdown", "json"]
MOST_TOPICS = 10
LONGEST_TOPIC = 2_000
_PATIENCE = 1.0
"""Seconds to wait for a sign of life of Tana."""
_MOST_LEFT_OUT = 50
"""Of a kind."""


class FoundNode(View):
    """A memory, a name, a pattern or a node of Tana that was found, and how much of it the document tells."""

    id: str
    name: str
    category: str
    type: str
    score: float | None
    """None if it was left out before it was scored."""
    distance: int | None
    """Links from what the topic names."""
    section: str
    """The heading below which it stands; empty if it was left out before."""
    why: tuple[str, ...]
    """The way that leads to it, and what speaks against it; nothing for what a search found."""
    told: Literal["text", "name", "not"]
    reason: str
    """Why not more of it is told; empty where its text is, and if nobody asked to explain it."""


class AssembledContext(Answer):
    """A document about some topics, ready to be read by an assistant."""

    document: str
    """Markdown or one JSON object; the same bytes whichever face it is asked through."""
    tokens: int
    warnings: tuple[str, ...]
    warned: bool
    """Whether the document itself holds the warnings."""
    found: tuple[FoundNode, ...] = Field(default=(), exclude=True)
    """All that was found, in the order of relevance, told or not; not part of the JSON."""

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
    history: Annotated[bool, Field(description="Older versions of what holds now, too.")] = False,
    offline: Annotated[bool, Field(description="Tana is told as it was last read.")] = False,
    explain: bool = False,
) -> AssembledContext:
    """Everything relevant about some topics within a budget of tokens: Markdown, or a JSON object.

    `depth` counts the links that are walked. `max_tokens` bounds the whole document; below 500 it holds names and types alone.
    With `explain` the answer says why a text is not told, and names what was left out before.
    """
    request = Request(_checked(topics), depth, max_tokens, choose_lens(lens), include_fields, history)
    reader = _reader(tenant, request.topics, offline=offline)
    found = replace(assemble(reader, request), zone=LocalTime.of(tenant.settings).zone)
    document = Json(found) if form == "json" else Markdown(found)
    fitted = fit(document, max_tokens)
    return AssembledContext(
        document=fitted.text,
        tokens=fitted.tokens,
        warnings=tuple(list_warnings(found)),
        warned=fitted.framed,
        found=tuple(_view(each, document, fitted, explain=explain) for each in found.nodes)
        + (_left_out(reader, found) if explain else ()),
    )


def _left_out(reader: StoreReader, found: Context) -> tuple[FoundNode, ...]:
    """What says the same as another text, is superseded, or is left out by the lens."""
    told = {ranked.node.id: ranked.node for ranked in found.nodes}
    left: dict[str, FoundNode] = {}

    def leave(node: Node, reason: str) -> None:
        given = {"score": None, "distance": None, "section": "", "why": (), "told": "not"}
        left.setdefault(node.id, FoundNode.of(node, category=node.category.value, reason=reason, **given))

    def called(number: str) -> str:
        return quoting.name(told[number].name) if number in told else f"id {number}"

    repeating = reader.same | dict(found.repeating)
    for number, node in reader.nodes(list(repeating)[:_MOST_LEFT_OUT]).items():
        if node.id not in told:
            leave(node, f"said by {called(repeating[number])}")
    for number, versions in reader.history(list(told)).items():
        for version in versions:
            leave(version, f"superseded by {called(number)}")
    for node in reader.nodes(list(found.unfollowed)[:_MOST_LEFT_OUT]).values():
        leave(node, f"the lens {found.request.lens.name} does not follow {found.unfollowed[node.id]}")
    return tuple(left.values())


def _view(ranked: Ranked, document: Document, fitted: Fitted, *, explain: bool) -> FoundNode:
    node = ranked.node
    how: Literal["text", "name", "not"] = "text" if node.id in fitted.told else "name" if node.id in fitted.named else "not"
    return FoundNode(
        id=node.id,
        name=node.name,
        category=node.category.value,
        type=node.type,
        score=ranked.score,
        distance=ranked.visit.hops,
        section=document.section(ranked),
        why=tuple(document.why(ranked)),
        told=how,
        reason=fitted.reason(ranked) if explain and how != "text" else "",
    )


def _reader(tenant: Tenant, topics: Sequence[str], *, offline: bool) -> StoreReader:
    """The store, with what is known of Tana; if the settings have its token and are this tenant's, it is first asked about the topics.

    The answers go into the catalog. Before there is a tenant Tana is not asked, as reading creates nothing.
    """
    warnings = []
    is_live = False
    asked = not offline and tenant.is_sources_tenant
    if asked and (tenant.settings.tana_token or _knows_tana(StoreReader(tenant))):
        try:
            client = TanaClient.open(tenant.settings)
            if not tenant.exists:
                warnings.append("Tana is not asked before anything is remembered; `memory run` takes in what there is.")
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


def _checked(topics: Sequence[str]) -> tuple[str, ...]:
    if not 1 <= len(topics) <= MOST_TOPICS:
        raise InvalidInputError(f"{len(topics)} topics were given; give 1 to {MOST_TOPICS}.")
    for topic in topics:
        reject_unstorable(topic, "topic")
        if is_blank(topic):
            raise InvalidInputError("A topic is blank; give words, a name or an id.")
        if len(topic) > LONGEST_TOPIC:
            raise InvalidInputError(f"A topic has {len(topic):,} characters; give at most {LONGEST_TOPIC:,}.")
    return tuple(topic.strip() for topic in topics)


def list_lenses() -> dict[str, str]:
    """Name -> description of the lenses that there are."""
    return {name: lens.description for name, lens in known_lenses().items()}
