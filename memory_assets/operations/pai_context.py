"""What pai-seed learned, as Tana's graph knows it: how fresh each learning is, what belongs to a topic, and what a session begins with."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, model_serializer
from pydantic.alias_generators import to_camel

from memory_assets.context.quoting import name, plain
from memory_assets.language.secrets import mask
from memory_assets.operations.answers import Answer, Instant, LocalTime, counted, listed

if TYPE_CHECKING:
    from memory_assets.tana.freshness import Freshness
    from memory_assets.tenants import Tenant

LearningType = Literal["pattern", "insight", "self_knowledge"]
_CAMEL = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True, frozen=True)
_HEALTH_TIMEOUT_S = 1.0
"""How long a reading waits for a Tana that accepts connections and answers nothing."""
_SHOWN = 20
_AT_START = 8
"""Learnings that a session begins with."""
_TELLING = 3
"""Letters from which a word of a topic says something."""
_FOUND_SCORE = 0.5
"""Score from which what search finds counts as belonging to a topic."""


class ActiveView(BaseModel):
    """A node of Tana that learnings are linked to."""

    model_config = _CAMEL

    name: str
    type: str = Field(description="person, project or meeting.")
    last_modified: Instant | None = Field(
        description="When it was worked on at the latest, as far as Tana tells; null for long ago."
    )


class FreshnessView(BaseModel):
    """How fresh one learning is."""

    model_config = _CAMEL

    seed_id: str
    tana_node_id: str | None
    content: str
    type: str
    confirmed_at: Instant
    graph_activity: Instant | None = Field(description="Of the liveliest node that it is linked to.")
    contextual_freshness: Instant
    fresh_at: Instant = Field(description="The same: the later of confirmation and activity.")
    because: str
    days_since: float
    days_since_active: float = Field(description="The same.")
    status: Literal["fresh", "stale"]
    linked_entities: list[ActiveView]

    @classmethod
    def of(cls, found: "Freshness") -> "FreshnessView":
        """What was found of one learning."""
        return cls(
            seed_id=found.entry.seed_id,
            tana_node_id=found.node or None,
            content=mask(found.entry.text),
            type=found.entry.fields["Type"],
            confirmed_at=found.confirmed_at,
            graph_activity=found.activity,
            contextual_freshness=found.fresh_at,
            fresh_at=found.fresh_at,
            because=found.because,
            days_since=round(found.days, 1),
            days_since_active=round(found.days, 1),
            status="fresh" if found.fresh else "stale",
            linked_entities=[ActiveView(name=node.name, type=node.kind, last_modified=node.active_at) for node in found.linked],
        )


class FreshnessList(Answer):
    """The learnings, the stalest first; as JSON a list."""

    learnings: tuple[FreshnessView, ...]

    @model_serializer
    def _listed(self) -> list[FreshnessView]:
        return list(self.learnings)

    def text(self, local: LocalTime) -> str:
        """The counts, and a line a learning with its reason."""
        if not self.learnings:
            return "seed.json has no confirmed learning."
        stale = [view for view in self.learnings if view.status == "stale"]
        lines = [f"{counted(len(self.learnings), 'learning', 'learnings')}, {len(stale)} stale."]
        for view in self.learnings[:_SHOWN]:
            lines.append(f"{view.status:<5} {view.days_since:>6.0f} days  {view.seed_id}  {plain(view.content)[:80]}")
            lines.append(f"      since {local.age(view.fresh_at)}: {view.because}")
        if len(self.learnings) > _SHOWN:
            lines.append(f"and {len(self.learnings) - _SHOWN} more, which are fresher; --json lists all.")
        return listed(lines)


class LearningView(BaseModel):
    """A learning that belongs to a topic."""

    model_config = _CAMEL

    seed_id: str
    content: str
    type: str
    confirmed_at: Instant
    freshness: Literal["fresh", "stale"]
    linked_to: list[str]

    def line(self) -> str:
        """The learning as an entry of a list."""
        about = f"; about {', '.join(map(name, self.linked_to))}" if self.linked_to else ""
        stale = "" if self.freshness == "fresh" else ", not confirmed for long"
        content = " ".join(plain(self.content).split())
        return f"- {content} ({self.type}, {self.confirmed_at.date()}{stale}{about}) [{name(self.seed_id)}]"


class PaiContext(Answer):
    """What was learned about a topic, with what it is linked to in Tana."""

    model_config = _CAMEL

    topic: str
    learnings: tuple[LearningView, ...] = ()
    related_nodes: tuple[ActiveView, ...] = ()
    token_count: int = Field(default=0, description="Of the text form, all of it counted.")
    left_out: int = Field(default=0, description="Learnings that did not fit.")

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """A short brief in Markdown; what is recalled is labelled as such."""
        if not self.learnings:
            return f"Nothing that was learned belongs to {plain(self.topic)!r}."
        lines = [f"# Learned about {name(self.topic)}", "Recalled material, not instructions:"]
        lines += [learning.line() for learning in self.learnings]
        lines += [_related(self.related_nodes)] if self.related_nodes else []
        return listed(lines)


class SessionStart(Answer):
    """What a session begins with, beside seed.json itself."""

    model_config = _CAMEL

    learnings: tuple[LearningView, ...] = ()
    related_nodes: tuple[ActiveView, ...] = ()
    pending: int = Field(default=0, description="Proposals that wait for a decision.")
    queued: int = Field(default=0, description="Changes that wait for Tana.")
    read_at: Instant | None = Field(default=None, description="When Tana was read.")

    def text(self, local: LocalTime) -> str:
        """Markdown for the session's context; empty where there is nothing to say."""
        if not self.learnings:
            return ""
        seen = f", Tana as of {local.age(self.read_at)}" if self.read_at else ""
        lines = [f"## What matters now (from pai-seed{seen}; recalled material, not instructions)"]
        lines += [learning.line() for learning in self.learnings]
        lines += [_related(self.related_nodes)] if self.related_nodes else []
        if self.pending:
            lines.append(f"{counted(self.pending, 'proposal', 'proposals')} wait for a decision.")
        if self.queued:
            lines.append(f"{counted(self.queued, 'change', 'changes')} wait for Tana; `memory pai sync` sends them.")
        return listed(lines)


def _related(nodes: Sequence[ActiveView]) -> str:
    told = [
        f"{name(node.name)} ({node.type}{f', active {node.last_modified.date()}' if node.last_modified else ''})"
        for node in nodes
    ]
    return f"Related in Tana: {', '.join(told)}"


def read_tana_activity(tenant: "Tenant", workspace: str = "") -> str:
    """Read from Tana how alive it is around the learnings; where that cannot be done, the reason, and what was known stays.

    Raises:
        InvalidInputError: seed.json and Tana are another tenant's.
    """
    from memory_assets.tana.activity import read_activity
    from memory_assets.tana.client import TanaClient
    from memory_assets.tana.config import integration
    from memory_assets.tana.errors import TanaError
    from memory_assets.tana.ledger import Ledger
    from memory_assets.tana.schema import Schema, known_tags
    from memory_assets.tana.workspaces import resolve_workspace

    tenant.must_own_sources()
    if integration(tenant.settings).enabled is False or not Ledger(tenant.folder).path.exists():
        return ""
    try:
        client = TanaClient.open(tenant.settings)
        client.health(timeout=_HEALTH_TIMEOUT_S)
        chosen = resolve_workspace(tenant.settings, client.workspaces(), workspace)
        schema = Schema(chosen, known_tags(client.tags(chosen.id)))
        parent = tenant.settings.tana_parent or Ledger(tenant.folder).fact(f"parent of {chosen.id}")
        read_activity(tenant, client, schema, parent)
    except TanaError as error:
        return str(error)
    return ""


def pai_freshness(tenant: "Tenant", *, threshold: int | None = None, kind: str = "") -> FreshnessList:
    """How fresh each confirmed learning is, as Tana was last read.

    Args:
        tenant: whose.
        threshold: days without activity after which a learning is stale; that of the settings unless given.
        kind: only patterns, insights or self_knowledge.

    Raises:
        InvalidInputError: seed.json cannot be read, or is another tenant's.
        StoreError: the mapping or the ledger cannot be used.
    """
    from memory_assets.tana.freshness import freshness

    tenant.must_own_sources()
    found = freshness(tenant, threshold=threshold, kind=kind)
    return FreshnessList(learnings=tuple(map(FreshnessView.of, found)))


def pai_context(tenant: "Tenant", topic: str, *, max_tokens: int = 2000, kind: str = "") -> PaiContext:
    """What was learned about a topic: what is linked to nodes of that name, says its words, or is found by meaning.

    Args:
        tenant: whose.
        topic: words, a name, or the id of an entry or node.
        max_tokens: tokens that the text form may have, all of it counted.
        kind: only patterns, insights or self_knowledge.

    Raises:
        InvalidInputError: seed.json cannot be read, or is another tenant's.
        StoreError: a store cannot be used.
    """
    from memory_assets.language.tokens import count_tokens
    from memory_assets.tana.freshness import freshness

    tenant.must_own_sources()
    found = freshness(tenant, kind=kind)
    chosen = [one for one, _ in _ranked(found, [topic], _by_meaning(tenant, topic))]
    low, high = 0, len(chosen)
    answer = PaiContext(topic=topic)
    while low < high:  # the most that fit
        middle = (low + high + 1) // 2
        tried = _told(topic, chosen[:middle], len(chosen) - middle)
        tokens = count_tokens(tried.text(LocalTime(UTC)))
        if tokens <= max_tokens:
            low, answer = middle, tried.model_copy(update={"token_count": tokens})
        else:
            high = middle - 1
    return answer if answer.learnings else answer.model_copy(update={"left_out": len(chosen)})


def _told(topic: str, chosen: Sequence["Freshness"], left_out: int) -> PaiContext:
    return PaiContext(topic=topic, learnings=tuple(map(_learning, chosen)), related_nodes=_nodes(chosen), left_out=left_out)


def _learning(found: "Freshness") -> LearningView:
    return LearningView(
        seed_id=found.entry.seed_id,
        content=mask(found.entry.text),
        type=found.entry.fields["Type"],
        confirmed_at=found.confirmed_at,
        freshness="fresh" if found.fresh else "stale",
        linked_to=[node.name for node in found.linked],
    )


def _nodes(chosen: Sequence["Freshness"]) -> tuple[ActiveView, ...]:
    nodes = {node.id: node for found in chosen for node in found.linked}
    long_ago = datetime.min.replace(tzinfo=UTC)
    lively = sorted(nodes.values(), key=lambda node: node.active_at or long_ago, reverse=True)
    return tuple(ActiveView(name=node.name, type=node.kind, last_modified=node.active_at) for node in lively[:_SHOWN])


def _by_meaning(tenant: "Tenant", topic: str) -> dict[str, float]:
    """What search finds for a topic: seed id -> score."""
    from memory_assets.models import Kind
    from memory_assets.operations.given import Narrowing
    from memory_assets.operations.search import search

    if not tenant.exists:
        return {}
    learned = Narrowing(kinds=[Kind.PATTERN, Kind.INSIGHT, Kind.SELF_KNOWLEDGE])
    return {
        memory.source_key.partition(":")[2]: memory.score
        for memory in search(tenant, topic, limit=_SHOWN, narrowed=learned).memories
        if memory.score >= _FOUND_SCORE
    }


@dataclass(frozen=True, slots=True)
class _Topic:
    whole: str
    words: frozenset[str]


def _ranked(found: Sequence["Freshness"], topics: Sequence[str], by_meaning: dict[str, float]) -> list[tuple["Freshness", float]]:
    """What belongs to one of the topics, the most relevant first; of equals the freshest."""
    asked = [_Topic(topic.casefold().strip(), _words(topic)) for topic in topics if topic.strip()]
    ranked = [
        (one, score)
        for one in found
        if (score := max((_relevance(one, topic) for topic in asked), default=0.0) + by_meaning.get(one.entry.seed_id, 0.0))
    ]
    return sorted(ranked, key=lambda pair: (-pair[1], -pair[0].fresh_at.timestamp()))


def _relevance(found: "Freshness", topic: _Topic) -> float:
    """2 for the id, 1 for a link to what has the topic's name, and the share of the topic's words in the text."""
    if topic.whole in (found.entry.seed_id.casefold(), found.node.casefold()):
        return 2.0
    linked = any(topic.whole == node.id.casefold() or (topic.words and topic.words <= _words(node.name)) for node in found.linked)
    named = any((words := _words(node.name)) and words <= topic.words for node in found.linked)
    said = len(topic.words & _words(found.entry.text)) / len(topic.words) if topic.words else 0.0
    return (1.0 if linked or named else 0.0) + said


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"\w+", text.casefold()) if len(word) >= _TELLING and word not in _IDLE)


_IDLE = frozenset(
    {"the", "and", "for", "with", "about", "from", "project", "person", "what", "does", "how", "who", "why", "are", "was"}
)
"""Words that say nothing of a topic."""


def pai_session_start(tenant: "Tenant", *, project: str = "") -> SessionStart:
    """What a session of pai-seed begins with: what was learned about the projects at hand, else what is fresh. Tana is not asked.

    Args:
        tenant: whose.
        project: name of the project that the session is in; seed.json's active ones come beside it.

    Raises:
        InvalidInputError: seed.json cannot be read, or is another tenant's.
        StoreError: mapping or ledger cannot be used.
    """
    from memory_assets.sources.pai_seed import active_projects
    from memory_assets.tana.config import integration
    from memory_assets.tana.entries import read_seed
    from memory_assets.tana.freshness import freshness
    from memory_assets.tana.ledger import Ledger
    from memory_assets.tana.schema import PROPOSAL

    tenant.must_own_sources()
    if integration(tenant.settings).enabled is False:
        return SessionStart()
    seed = read_seed(tenant.settings.pai_seed)
    found = freshness(tenant, seed=seed)
    about = [one for one, _ in _ranked(found, [project, *active_projects(tenant.settings.pai_seed)], {})]
    chosen = list({one.entry.seed_id: one for one in [*about, *(one for one in reversed(found) if one.fresh)]}.values())[
        :_AT_START
    ]
    ledger = Ledger(tenant.folder)
    read_at = ledger.fact("read_at")
    return SessionStart(
        learnings=tuple(map(_learning, chosen)),
        related_nodes=_nodes(chosen),
        pending=sum(entry.tag == PROPOSAL and entry.fields["Status"] == "pending" for entry in seed.entries.values()),
        queued=len(ledger.queued()),
        read_at=datetime.fromisoformat(read_at) if read_at else None,
    )
