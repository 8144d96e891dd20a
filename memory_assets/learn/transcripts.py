"""What a transcript of Claude Code says of its session: the user's words, the assistant's answers to them, and the work.

One line is one JSON object. Side chains, tool results and what a program wrote in the user's place are not words of the user.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory_assets.display import visible
from memory_assets.sources.files import json_objects, read_head

_TAIL_BYTES = 8 << 20
"""Of a transcript so much is read, from its end."""
_NOT_SAID = ("<", "Caveat:", "[Request interrupted", "This session is being continued", "/")
"""How what a program put in the user's place begins."""
_REFUSAL = "the user said:\n"
"""Begins, in the result of a tool that the user refused, what the user said instead; Claude Code's own remarks follow."""
_REMARKS = re.compile(r"\n\nNote: |^The user wants to clarify")
_QUEUED = "queued_command"
"""Type of an attachment with a prompt that the user wrote while the assistant worked."""
_PASTED = re.compile(
    r"```.*?(?:```|\Z)"
    r"|^Traceback \(most recent call last\):\n(?:[^\S\n][^\n]*\n|\n)*[^\n]*"
    r"|^\W{0,2}(?:\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d )?\d\d:\d\d:\d\d\b[^\n]*|^\s+at [^\n]+:\d+\)?$",
    re.DOTALL | re.MULTILINE,
)
"""Code in fences, tracebacks, and lines of logs: a program wrote them."""
_WRITING = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_LISTS = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate"})
_CHOICE = re.compile(r'"([^"\n]+)"="([^"\n]+)"')
_COMMIT = re.compile(
    r"\bgit\b[^\n;&|]*?\bcommit\b[^\n;&|]*?\s-\w*m\s*"
    r"(?:\"\$\(cat <<-?\s*['\"]?\w+['\"]?\s*\n(?P<heredoc>[^\n]+)|\"(?P<double>[^\"\n$]+)|'(?P<single>[^'\n]+))"
)
_UNDO = re.compile(r"\b(?:git (?:checkout|restore|rm)|rm) ([^;&|\n]+)|\bgit reset --hard")
_TASK = re.compile(r"#(\d+)")


@dataclass
class Turn:
    """What the user said, and the assistant's last words before the user spoke again."""

    request: str
    """Empty where the user only pasted something."""
    answer: str = ""
    """Empty where the assistant was interrupted at work."""
    used_tools: bool = False
    """Whether a tool did what the assistant asked of it."""
    has_work: bool = False
    """Whether the assistant wrote a file or committed."""
    choices: list[str] = field(default_factory=list)
    """What the user chose where the assistant asked with a list: "question: choice"."""


@dataclass
class Record:
    """What a transcript says of its session."""

    turns: list[Turn] = field(default_factory=list)
    files: Counter[str] = field(default_factory=Counter)
    """File that was written and not put back -> how often."""
    commits: list[str] = field(default_factory=list)
    """Their subjects."""
    open: list[str] = field(default_factory=list)
    """What is not done of the assistant's list of things to do."""
    ended_at: datetime | None = None

    @property
    def requests(self) -> list[str]:
        """The user's words, one text a prompt."""
        return [turn.request for turn in self.turns]

    @property
    def has_work(self) -> bool:
        """Whether the assistant wrote a file or committed, even if all of it was put back."""
        return any(turn.has_work for turn in self.turns)

    @property
    def only_asked(self) -> bool:
        """Whether the user asked questions and nothing was written."""
        return not self.has_work and any(request.endswith("?") for request in self.requests)


def read_record(transcript: Path) -> Record:
    """What is said in a transcript, of its last eight megabytes."""
    reading = _Reading()
    for entry in read_tail(transcript, b'"type"'):
        reading.take(entry)
    reading.record.open = [name for name, is_done in reading.tasks.values() if not is_done]
    return reading.record


class _Reading:
    """The entries of a transcript, taken one after the other."""

    def __init__(self) -> None:
        self.record = Record()
        self.tasks: dict[str, tuple[str, bool]] = {}
        """Id of a thing to do -> its name, and whether it is done."""
        self._calls: dict[str, dict[str, Any]] = {}
        self._committed: frozenset[str] = frozenset()

    def take(self, entry: dict[str, Any]) -> None:
        if words := user_words(entry).strip():
            self.record.turns.append(Turn(visible(" ".join(without_pasted(words).split()))))
        if not self.record.turns:
            return
        if (moment := read_moment(entry.get("timestamp"))) is not None:
            self.record.ended_at = moment
        if entry.get("isSidechain"):
            return
        for block in blocks(entry):
            if entry.get("type") == "assistant":
                self._take_answer(block)
            elif block.get("type") == "tool_result":
                call = self._calls.pop(str(block.get("tool_use_id")), None)
                if call and not block.get("is_error"):
                    self._did(call, _text(block.get("content")))

    def _take_answer(self, block: dict[str, Any]) -> None:
        turn = self.record.turns[-1]
        if block.get("type") == "text" and isinstance(block.get("text"), str) and block["text"].strip():
            turn.answer = visible(block["text"].strip())
        elif block.get("type") == "tool_use" and isinstance(block.get("input"), dict):
            if block.get("name") not in _LISTS:
                turn.answer = ""
            self._calls[str(block.get("id"))] = block

    def _did(self, call: dict[str, Any], result: str) -> None:
        """Note what a tool did that did not fail."""
        name, given, record = call.get("name"), call["input"], self.record
        record.turns[-1].used_tools = True
        if name in _WRITING and isinstance(given.get("file_path"), str):
            record.files[given["file_path"]] += 1
            record.turns[-1].has_work = True
        elif name == "Bash" and isinstance(given.get("command"), str):
            self._ran(given["command"])
        elif name == "TodoWrite" and isinstance(given.get("todos"), list):
            todos = [each for each in given["todos"] if isinstance(each, dict)]
            self.tasks = {
                str(number): (visible(str(each.get("content", ""))), each.get("status") == "completed")
                for number, each in enumerate(todos)
            }
        elif name == "TaskCreate" and (number := _TASK.search(result)):
            self.tasks[number[1]] = (visible(str(given.get("subject", ""))), False)
        elif name == "TaskUpdate" and (task := self.tasks.get(str(given.get("taskId")))):
            status = given.get("status")
            self.tasks[str(given["taskId"])] = (task[0], status in ("completed", "deleted") or (task[1] and status is None))
        elif name == "AskUserQuestion":
            record.turns[-1].choices += [visible(f"{question} {choice}") for question, choice in _CHOICE.findall(result)]

    def _ran(self, command: str) -> None:
        files = self.record.files
        for found in _UNDO.finditer(command):
            back = found[1].split() if found[1] else ["."]
            for path in set(files) - self._committed:
                if "." in back or any(Path(path).match(each) for each in back):
                    del files[path]
        for found in _COMMIT.finditer(command):
            subject = found["heredoc"] or found["double"] or found["single"]
            self.record.commits.append(visible(subject.strip()))
            self._committed = frozenset(files)
            self.record.turns[-1].has_work = True


def read_tail(transcript: Path, marker: bytes) -> Iterator[dict[str, Any]]:
    """The lines of a transcript's last eight megabytes that hold `marker`."""
    skip = max(0, transcript.stat().st_size - _TAIL_BYTES)
    return json_objects(read_head(transcript, None, _TAIL_BYTES, skip=skip), marker)


def user_entries(transcript: Path) -> Iterator[dict[str, Any]]:
    """The lines that may hold words of the user; queued ones come last."""
    for marker in (b'"user"', b'"queued_command"'):
        yield from read_tail(transcript, marker)


def user_words(entry: dict[str, Any]) -> str:
    """What the user wrote in a line of a transcript; empty where a program wrote it."""
    if any(entry.get(name) for name in ("isMeta", "isSidechain", "isCompactSummary")):
        return ""
    attachment = entry.get("attachment")
    if entry.get("type") == "attachment" and isinstance(attachment, dict) and attachment.get("type") == _QUEUED:
        texts = [attachment.get("prompt")] if attachment.get("commandMode", "prompt") == "prompt" else []
    elif entry.get("type") != "user":
        return ""
    elif entry.get("toolUseResult") or any(block.get("type") == "tool_result" for block in blocks(entry)):
        texts = [_refused(block) for block in blocks(entry)]
    else:
        texts = [block.get("text") for block in blocks(entry) if block.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str) and not text.lstrip().startswith(_NOT_SAID))


def without_pasted(words: str) -> str:
    """What the user wrote, without the code and the logs in it."""
    return _PASTED.sub("", words)


def _refused(block: dict[str, Any]) -> str:
    """Why the user refused a tool; empty for any other result, and where the user did not say."""
    _, _, said = _text(block.get("content")).partition(_REFUSAL) if block.get("is_error") else ("", "", "")
    return _REMARKS.split(said, maxsplit=1)[0].strip()


def blocks(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of a line's message."""
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _text(content: object) -> str:
    """The text of a tool's result, which is a text or a list of parts."""
    parts: list[Any] = content if isinstance(content, list) else [{"text": content}]
    texts = (each.get("text") for each in parts if isinstance(each, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def read_moment(text: object) -> datetime | None:
    """The time that a line of a transcript states; None if it states none."""
    try:
        moment = datetime.fromisoformat(str(text))
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
