"""PAI's LEARNING store: four homes of curated memories, and the ratings and reflections that PAI collects."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import ConfigDict, Field

from memory_assets.models import FileStamp, Hook, Kind, Refusal, Scan, Source, SourceItem
from memory_assets.sources.dating import Dating
from memory_assets.sources.files import MAX_BYTES, RefusedFileError, decode, wide_encoding
from memory_assets.sources.json_fields import Fields, OptionalText, OptionalTime, loads
from memory_assets.sources.markdown import memory_item, scan_folder
from memory_assets.sources.scanning import Parsed, ScanBuilder

HOMES = {kind.name: kind for kind in (Kind.FEEDBACK, Kind.PROJECT, Kind.REFERENCE, Kind.USER)}
"""The folders of curated memories. The folder decides a memory's kind, whatever its frontmatter says."""
RATINGS_NAME = "ratings.jsonl"
REFLECTIONS_NAME = "algorithm-reflections.jsonl"
MAX_JSONL_BYTES = 32 << 20

_INFERRED_CONFIDENCE = 0.5


def scan(root: Path, known: Mapping[str, FileStamp] | None, *, max_bytes: int = MAX_BYTES) -> Scan:
    """Read every file of the LEARNING store whose stamp differs from the known one.

    A `.md` file in a home is one memory. Each line of `ratings.jsonl` and `algorithm-reflections.jsonl`, at the root or one level
    below, is one memory; an invalid line is refused alone. `known` maps absolute paths to the stamps of the last scan. A file above
    its size limit is refused unread.
    """
    builder = ScanBuilder(Source.PAI_LEARNING, root, known)
    dating = Dating(builder.root)
    entries = builder.top_folders("PAI learnings", "MEMORY_PAI_LEARNING_DIR")
    for entry in entries:
        if kind := HOMES.get(entry.name):
            scan_folder(
                builder,
                entry.path,
                partial(_parse_curated, kind=kind, dating=dating),
                key_prefix=f"{Source.PAI_LEARNING}:{entry.name}/",
                skipped_names=(RATINGS_NAME, REFLECTIONS_NAME),
                max_bytes=max_bytes,
            )
    for folder in (str(builder.root), *(entry.path for entry in entries)):
        for path in (str(Path(folder, name)) for name in (RATINGS_NAME, REFLECTIONS_NAME)):
            try:
                os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                builder.cannot_list(folder, error)
                continue
            builder.read(path, partial(_parse_lines, path=path, relative=os.path.relpath(path, builder.root)), MAX_JSONL_BYTES)
    return builder.scan()


def _parse_curated(data: bytes, path: str, key: str, *, kind: Kind, dating: Dating) -> Parsed:
    item = memory_item(data, source=Source.PAI_LEARNING, key=key, path=path, dating=dating, kind=kind)
    hooks = item.metadata.get("frontmatter", {}).get("index_hook", [])
    return Parsed(
        [item], hooks=[Hook(key, hook) for hook in (hooks if isinstance(hooks, list) else [hooks]) if isinstance(hook, str)]
    )


def _parse_lines(data: bytes, *, path: str, relative: str) -> Parsed:
    """Return an item or a refusal for each non-blank line of a JSON Lines file."""
    shape = _Rating if Path(path).name == RATINGS_NAME else _Reflection
    if wide_encoding(data):
        data = decode(data, allow_controls=True)[0].encode()
    items: dict[str, SourceItem] = {}
    refusals: list[Refusal] = []
    seen: dict[bytes, int] = {}
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not (line := line.strip()):
            continue
        try:
            if line in seen:
                raise RefusedFileError(f"it repeats line {seen[line]}", "delete one of them")
            seen[line] = number
            text, note = decode(line, allow_controls=True)
            value = loads(text)
            read = shape.read(value, "$")
            digest = hashlib.blake2b(line, digest_size=8).hexdigest()
            key = f"{Source.PAI_LEARNING}:{relative}#{value['timestamp'].strip() if read.timestamp else digest}"
            key = f"{key}~{digest}" if key in items else key
            decoding = {"decoding": note} if note else {}
            item = read.item(key)
        except RefusedFileError as error:
            where = f"line {number} {error.location}".removesuffix(" $").rstrip()
            refusals.append(Refusal(Source.PAI_LEARNING, path, error.reason, error.mend, where))
        else:
            items[key] = replace(item, metadata={"path": path, "line": number, **decoding, "fields": value})
    return Parsed(items.values(), refusals)


class _Line(Fields):
    model_config = ConfigDict(alias_generator=None)

    timestamp: OptionalTime = None
    session_id: OptionalText = ""


class _Rating(_Line):
    rating: float = Field(ge=1, le=10)
    source: OptionalText = ""
    confidence: float = Field(_INFERRED_CONFIDENCE, ge=0, le=1)
    sentiment_summary: OptionalText = ""
    comment: OptionalText = ""

    def item(self, key: str) -> SourceItem:
        """Return the memory of one line of ratings. An inferred rating has its own confidence, or 0.5 if it states none."""
        explicit = self.source == "explicit"
        comments = " ".join(map(_end_sentence, dict.fromkeys(filter(None, (self.sentiment_summary, self.comment)))))
        head = f"{'Explicit' if explicit else 'Inferred'} rating of {self.rating:g} out of 10"
        return SourceItem(
            source=Source.PAI_LEARNING,
            key=key,
            kind=Kind.RATING,
            body=f"{head}: {comments}" if comments else f"{head}.",
            created_at=self.timestamp,
            session=self.session_id,
            importance=_importance(self.rating),
            confidence=1.0 if explicit else self.confidence,
        )


class _Reflection(_Line):
    task_description: OptionalText = ""
    reflection_q1: OptionalText = ""
    reflection_q2: OptionalText = ""
    reflection_q3: OptionalText = ""
    criteria_count: float | None = Field(None, ge=0, le=1e6)
    criteria_passed: float | None = Field(None, ge=0, le=1e6)
    implied_sentiment: float | None = Field(None, ge=1, le=10)

    def item(self, key: str) -> SourceItem:
        """Return the memory of one line of reflections: the task, its outcome and the three answers."""
        answers = [self.reflection_q1, self.reflection_q2, self.reflection_q3]
        if not (self.task_description or any(answers)):
            raise RefusedFileError(
                "it has neither `task_description` nor any of `reflection_q1` to `reflection_q3`",
                "write what was reflected on",
                "$",
            )
        outcome: list[str] = []
        if self.criteria_count and self.criteria_passed is not None:
            outcome.append(f"{self.criteria_passed:g} of {self.criteria_count:g} criteria passed")
        if (self.model_extra or {}).get("within_budget") is False:
            outcome.append("over budget")
        head = f"Reflection on {self.task_description or 'a task'}" + (f" ({', '.join(outcome)})" if outcome else "")
        return SourceItem(
            source=Source.PAI_LEARNING,
            key=key,
            kind=Kind.REFLECTION,
            body="\n".join(map(_end_sentence, filter(None, (head, *answers)))),
            title=" ".join(self.task_description.split()),
            created_at=self.timestamp,
            session=self.session_id,
            importance=0.5 if self.implied_sentiment is None else _importance(self.implied_sentiment),
        )


def _importance(rating: float) -> float:
    """Return 0.3 for the middle of the scale from 1 to 10, rising linearly to 0.9 at both ends: extremes are worth remembering."""
    return round(0.3 + 0.6 * abs(rating - 5.5) / 4.5, 3)


def _end_sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
