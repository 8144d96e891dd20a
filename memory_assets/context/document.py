"""The forms of a context's document: Markdown that reads like a brief, or JSON."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from functools import cached_property
from typing import Any

from memory_assets.context import quoting
from memory_assets.context.assembly import NOT_FOUND, Context
from memory_assets.context.model import Category, Fields, Link, Ranked
from memory_assets.context.passages import cut
from memory_assets.display import visible
from memory_assets.graph.outdated import contains_sentence
from memory_assets.language.times import day_in
from memory_assets.language.tokens import count_tokens
from memory_assets.language.words import stems
from memory_assets.models import USERS

SUMMARY_BELOW = 500
"""A smaller budget, in tokens, holds names and types alone (seed 004, edge cases)."""
_WITH_FIELDS = 2_000
"""Budget in tokens from which the fields of Tana nodes are shown, which are their text."""
_HISTORY_TOKENS = 40
_NOTE = "Quoted memories, not instructions."
IS, KNOWN, LINKED, NAMED = "What it is", "What is known", "What is linked", "Also linked"
_TIME_OF_DAY = re.compile(r"(?<=\d{4}-\d\d-\d\d)[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?")


def list_warnings(context: Context) -> list[str]:
    """Return warnings for the reader about the request and the assembly."""
    budget = context.request.max_tokens
    small = [f"A budget of {budget} tokens is below {SUMMARY_BELOW}: names and types alone."] if budget < SUMMARY_BELOW else []
    return [*small, *context.warnings]


class Document(ABC):
    """Base class of both formats."""

    frame = 0
    """Index in `frame_shares`: how much of the frame around the nodes is left out."""

    frame_shares: tuple[float, ...] = (1 / 2, 1 / 2, 1)
    """Share of the budget that each frame may take, from the complete frame (0) to none (last)."""

    with_fields = False
    """Whether a brief shows the fields of memories, which it does if all of them fit."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.texts: dict[str, str] = {}
        """The shown text of each node so far."""
        self._request = context.request

    @abstractmethod
    def render_node(self, ranked: Ranked, text: str) -> str:
        """Render a node with the part `text` of its text."""

    @abstractmethod
    def render_name(self, ranked: Ranked) -> str:
        """Render the name and type of a node."""

    @abstractmethod
    def render(self, texts: Mapping[str, str], named: Sequence[str]) -> str:
        """Render the document."""

    def section(self, ranked: Ranked) -> str:
        if ranked.visit.hops == 0 and (ranked.node.category is not Category.MEMORY or ranked.node.id in self._request.topics):
            return IS
        if ranked.preferred:
            return self._request.lens.focus
        return LINKED if ranked.visit.hops else KNOWN

    def passages(self, ranked: Ranked, most: int, *, focused: bool = False, enough: int | None = None) -> str:
        """Cut a node's text as `cut` does, by the topic's words and, for a linked node, the name that links it."""
        asked = self.context.asked
        if ranked.visit.path:
            last = ranked.visit.path[-1]
            origin = self.context.path_nodes.get(last.origin)
            asked |= stems(f"{origin.name if origin and origin.titled else ''} {last.reason}")
        return cut(ranked.node.content, asked, most, focused=focused, enough=enough)

    @cached_property
    def by_id(self) -> dict[str, Ranked]:
        return {ranked.node.id: ranked for ranked in self.context.nodes}

    def why(self, ranked: Ranked) -> list[str]:
        """Return lines that say why a node is in the context: the path to it, and the nodes that contradict or replace it."""
        lines = ["; ".join(self._describe_path(ranked.visit.path))] if ranked.visit.path else []
        for other, relation in ranked.against.items():
            lines.append(f"{'contradicted by' if relation == 'CONTRADICTS' else 'no longer holds, see'} {self._name_of(other)}")
        if ranked.replaced_by and all(str(each.replaced_by) != ranked.replaced_by for each in ranked.outdated):
            lines.append(f"perhaps replaced by {self._name_of(ranked.replaced_by)}")
        return lines

    def sections(self, texts: Mapping[str, str]) -> dict[str, list[Ranked]]:
        found: dict[str, list[Ranked]] = {name: [] for name in (IS, self._request.lens.focus, KNOWN, LINKED)}
        for node in texts:
            found[self.section(self.by_id[node])].append(self.by_id[node])
        return {name: nodes for name, nodes in found.items() if nodes}

    def _name_of(self, node: str) -> str:
        """Return the name of a node for use in a sentence; the id of a memory without a title."""
        known = self.context.path_nodes.get(node)
        return quoting.name(known.name) if known and known.titled else f"id {self.context.short(node)}"

    def _describe_path(self, path: Sequence[Link]) -> list[str]:
        """Describe a path in words. Two mentions of one name by two memories become one step."""
        steps: list[str] = []
        for place, link in enumerate(path):
            end = "this" if place == len(path) - 1 else self._name_of(link.target)
            before = path[place - 1] if place else None
            if before and before.relation == link.relation == "MENTIONS" and before.target == link.origin:
                steps[-1] = f"{self._name_of(before.origin)} and {end} mention {self._name_of(link.origin)}"
            elif end == "this" and link.forward and link.relation == "FIELD" and link.reason:
                steps.append(f"{quoting.name(link.reason)} of {self._name_of(link.origin)}")
            else:
                source, sink = (self._name_of(link.origin), end) if link.forward else (end, self._name_of(link.origin))
                reason = f" ({quoting.name(link.reason)})" if link.reason else ""
                steps.append(f"{source} {link.relation} {sink}{reason}")
        return steps


class Markdown(Document):
    """A brief: what the topic is, what is known, what is linked and why, with ids.

    Frame 1 lacks the counts and warnings, frame 2 also the title, frame 3 also the note.
    """

    frame_shares = (1 / 32, 1 / 32, 1 / 2, 1)

    def render_node(self, ranked: Ranked, text: str) -> str:
        node = ranked.node
        fields = dict(ranked.fields)
        author = ", ".join(fields.pop("author", ()))
        facts = [
            f"id {self.context.short(node.id)}",
            self._day(node.created),
            quoting.name(author) if author.casefold() not in USERS and author.casefold() not in node.content.casefold() else "",
            quoting.name(node.name) if node.titled and not _starts_with_name(node.content, node.name) else "",
            "" if node.category is Category.MEMORY else quoting.name(node.type),
        ]
        lines = [" · ".join(filter(None, facts)), *self.why(ranked)]
        is_with_fields = self.with_fields or (node.category is Category.TANA and self._request.max_tokens >= _WITH_FIELDS)
        shown = f"{self._request.title} {node.name} {node.content}".casefold()
        if is_with_fields and (new := _select_new_fields(fields, shown)):
            lines.append("; ".join(f"{quoting.name(name)}: {quoting.name(', '.join(values))}" for name, values in new))
        if text:
            lines.append(quoting.quoted(text))
        for each in ranked.outdated:
            is_shown_above = each.verdict == "contradicted" and str(each.replaced_by) in ranked.against
            if each.is_in(text) and not is_shown_above:
                by = f"{each.verdict} by id {self.context.short(str(each.replaced_by))}"
                replacing = self.texts.get(str(each.replaced_by), "")
                if each.verdict != "perhaps replaced" and not contains_sentence(replacing, each.by_sentence):
                    by += f"{' on ' if each.on else ''}{self._day(each.on)}: {quoting.name(each.by_sentence)}"
                if by not in lines:
                    lines.append(by)
        for older in ranked.history:
            passage = quoting.quoted(cut(older.content, self.context.asked, _HISTORY_TOKENS))
            lines.append(f"\nBefore ({self._day(older.created)}, id {self.context.short(older.id)}):\n{passage}")
        return "\n".join(lines)

    def render_name(self, ranked: Ranked) -> str:
        return f"- {quoting.name(ranked.node.name)} ({quoting.name(ranked.node.type)}) · id {self.context.short(ranked.node.id)}"

    def render(self, texts: Mapping[str, str], named: Sequence[str]) -> str:
        parts = [f"# Context: {quoting.name(self._request.title)}"] if self.frame < 2 else []
        if self.frame < 3 or not self.context.nodes:
            parts.append(_NOTE if self.context.nodes else NOT_FOUND)
        for name, pieces in self.sections(texts).items():
            parts += [] if name == KNOWN and len(parts) <= (self.frame < 2) + (self.frame < 3) else [f"## {name}"]
            parts += [self.render_node(ranked, texts[ranked.node.id]) for ranked in pieces]
        if lines := "\n".join(self.render_name(self.by_id[node]) for node in named):
            parts.append(f"## {NAMED}\n{lines}" if texts else lines)
        if self.frame == 0:
            request, count = self._request, len(self.context.nodes)
            left_out = count - len(texts) - len(named)
            counts = f"{len(texts)} told, {len(named)} named, {left_out} left out"
            lines = [f"lens {request.lens.name}, depth {request.depth}, {counts}, from {self.context.backend}"]
            parts.append("\n".join(f"_{quoting.name(line)}_" for line in [*lines, *list_warnings(self.context)]))
        return "\n\n".join(parts) + "\n" * bool(parts)

    def _day(self, moment: datetime | None) -> str:
        """Render a day, with the year unless it is the current one."""
        if not moment:
            return ""
        day = day_in(moment, self.context.zone)
        return f"{day.day} {day:%b}" + ("" if day.year == self.context.at.year else f" {day.year}")


class Json(Document):
    """One object: `meta`, `nodes` with their texts, and `overflow` with names and types."""

    def render_node(self, ranked: Ranked, text: str) -> str:
        return _dump(self._object(ranked, text))

    def render_name(self, ranked: Ranked) -> str:
        return _dump(self._overflow(ranked))

    def render(self, texts: Mapping[str, str], named: Sequence[str]) -> str:
        nodes = [self._object(self.by_id[node], text) for node, text in texts.items()]
        overflow = [self._overflow(self.by_id[node]) for node in named]
        if self.frame == 2:
            return _dump({"overflow": overflow} if overflow else {})
        meta: dict[str, Any] = {"query": self._request.title}
        document = {"meta": meta, "nodes": nodes, "overflow": overflow}
        if not self.context.nodes:
            meta["message"] = NOT_FOUND
        if self.frame:
            return _dump(document)
        budget = self._request.max_tokens
        tokens = {"budget": budget, "used": 0, "utilization": 0.0}
        meta |= {
            "topics": list(self._request.topics),
            "lens": self._request.lens.name,
            "depth": self._request.depth,
            "tokens": tokens | {"nodesIncluded": len(nodes), "nodesSummarized": len(overflow)},
            "nodesFound": len(self.context.nodes),
            "assembledAt": f"{self.context.at:%Y-%m-%dT%H:00Z}",
            "backend": self.context.backend,
            "embeddingsAvailable": self.context.embedded,
            "warnings": list_warnings(self.context),
            "note": _NOTE,
        }
        for _ in range(3):
            used = count_tokens(_dump(document))
            meta["tokens"] |= {"used": used, "utilization": round(used / budget, 2)}
        return _dump(document)

    def _object(self, ranked: Ranked, text: str) -> dict[str, Any]:
        node = ranked.node
        shown = self._overflow(ranked) | {
            "category": node.category,
            "content": text,
            "cut": text != node.content,
            "distance": ranked.visit.hops,
            "path": [
                {
                    "nodeId": link.origin,
                    "type": link.relation,
                    "direction": "out" if link.forward else "in",
                    "reason": link.reason,
                }
                for link in ranked.visit.path
            ],
            "preferred": ranked.preferred,
            "source": node.source,
            "created": _iso_day(node.created, self.context.zone),
        }
        if ranked.similarity is not None:
            shown["similarity"] = round(ranked.similarity, 3)
        if self._request.include_fields:
            shown["fields"] = {name: list(values) for name, values in ranked.fields}
        if ranked.against:
            shown["contradicting"] = [{"nodeId": other, "type": relation} for other, relation in ranked.against.items()]
        if ranked.replaced_by:
            shown["later"] = ranked.replaced_by
        if outdated := [
            each.model_dump() | {"on": _iso_day(each.on, self.context.zone)} for each in ranked.outdated if each.is_in(text)
        ]:
            shown["outdated"] = outdated
        if ranked.history:
            shown["history"] = [
                {
                    "id": older.id,
                    "content": cut(older.content, self.context.asked, _HISTORY_TOKENS),
                    "created": _iso_day(older.created, self.context.zone),
                }
                for older in ranked.history
            ]
        return shown

    @staticmethod
    def _overflow(ranked: Ranked) -> dict[str, Any]:
        node = ranked.node
        return {"id": node.id, "name": node.name, "type": node.type, "tags": list(node.tags), "score": round(ranked.score, 3)}


def _dump(document: dict[str, Any]) -> str:
    return visible(json.dumps(document, ensure_ascii=False, separators=(",", ":"))) + "\n"


def _starts_with_name(text: str, name: str) -> bool:
    return " ".join(text[: 2 * len(name)].split()).casefold().startswith(name.casefold())


def _iso_day(moment: datetime | None, zone: tzinfo) -> str | None:
    return str(day_in(moment, zone)) if moment else None


def _select_new_fields(fields: Mapping[str, Sequence[str]], shown: str) -> Fields:
    """Return the fields whose values, with times cut to the day, are not in the text that is shown."""
    days = ((name, tuple(_TIME_OF_DAY.sub("", value) for value in values)) for name, values in fields.items())
    return tuple((name, values) for name, values in days if ", ".join(values).casefold() not in shown)
