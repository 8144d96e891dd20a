"""Claude Code's transcripts: the user's words, the assistant's answers and the work of a session.

One line is one JSON object. Side chains, tool results and texts that a program wrote in the user's place are not the user's words.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any

from memory_assets.display import visible
from memory_assets.sources.files import RefusedFileError, json_objects, last_lines

_TAIL_BYTES = 8 << 20
_RECENT_BYTES = 1 << 20
_REQUEST = b'{"type":"api-request'
"""Beginning of the lines on requests to the model, which repeat messages and tools."""
_PROGRAM_TEXT = re.compile(
    r"\s*(?:Caveat:|\[Request interrupted|This session is being continued|/[\w:-]+(?!\S)"
    r"|<(?:(?:local-)?command-[a-z-]+|bash-[a-z-]+|ide_\w+|system-reminder|task-notification|teammate-message|user-memory-input"
    r"|user-[a-z-]+-hook)[\s>])"
)
"""Beginning of a slash command, or of a text that Claude Code wrote in the user's place."""
_REFUSAL = "the user said:\n"
"""Precedes the user's words in the result of a refused tool; Claude Code's own remarks may follow them."""
_REMARKS = re.compile(r"\n\nNote: |^The user wants to clarify")
_QUEUED = "queued_command"
"""Type of an attachment with a prompt that the user wrote while the assistant was working."""
_PLAN = "planContent"
"""Field of an entry with the assistant's plan, which the user accepted to be carried out in a new session."""
_COMMAND = "local_command"
"""Subtype of the entry of a slash command that Claude Code carries out without the model."""
_PERSON = "human"
"""Kind of origin of what the user wrote."""
_PERSONAL_TURNS = (None, _PERSON, "sdk", "unknown")
"""Origins of a turn that a person may have begun; the others name a schedule, a continuation, a task or another session."""
_FOLLOWING = ("assistant", "user", "queue-operation")
"""Types of entries that may follow a prompt which was not taken back."""
_PASTED = re.compile(
    r"^[^\S\n]*```.*?(?:```|\Z)"
    r"|^Traceback \(most recent call last\):\n(?:[^\S\n][^\n]*\n)*[^\n]*"
    r"|^\W{0,2}(?:\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d )?\d\d:\d\d:\d\d\b[^\n]*|^[^\S\n]+at [^\n]+:\d+\)?$",
    re.DOTALL | re.MULTILINE,
)
"""Text that a program wrote: fenced code, tracebacks and log lines."""
_PASTE = re.compile(r'<pasted_content id="(\w+)">.*?(?:</pasted_content id="\1">|\Z)', re.DOTALL)
_PASTE_TAG = re.compile(r'</?pasted_content id="\w+">')
"""Claude Code's tags around pasted text of several lines."""
_WRITING = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_INPUTS = ("command", "content", "new_string", "new_source")
"""Fields of a tool's input that hold a command, or text for a file."""
_SEARCHED = 8_000
"""Characters of such a text that are searched for secrets: a file of settings is short."""
_LISTS = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate"})
_CHOICE = re.compile(r'"([^"\n]+)"="([^"\n]+)"')
_COMMIT = re.compile(
    r"\bgit\b[^\n;&|]*?\bcommit\b[^\n;&|]*?\s-\w*m\s*"
    r"(?:\"\$\(cat <<-?\s*['\"]?\w+['\"]?\s*\n(?P<heredoc>[^\n]+)|\"(?P<double>[^\"\n$]+)|'(?P<single>[^'\n]+))"
)
_UNDO = re.compile(r"\b(?:git (?:checkout|restore|rm)|rm) ([^;&|\n]+)|\bgit reset --hard")
_TASK = re.compile(r"#(\d+)")
_AGENT_ID = re.compile(r"[\w-]{1,100}")


@dataclass
class Turn:
    """The user's words, and the assistant's last words before the user wrote again."""

    request: str
    """Empty if the user only pasted something or accepted a plan."""
    answer: str = ""
    """Empty if the assistant was interrupted at work."""
    used_tools: bool = False
    """Whether any tool call succeeded."""
    has_work: bool = False
    """Whether the assistant wrote a file or committed."""
    choices: list[str] = field(default_factory=list)
    """The user's choices from the assistant's lists, each with its question."""


@dataclass
class Record:
    """The content of a transcript."""

    turns: list[Turn] = field(default_factory=list)
    files: Counter[str] = field(default_factory=Counter)
    """How often each file was written, without files that were restored."""
    commits: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    """Unfinished items of the assistant's to-do list."""
    ended_at: datetime | None = None
    secrets: dict[str, str] = field(default_factory=dict)
    """Kind of each secret in the words of both, in commands and in what was written; each is masked in every text above."""

    @property
    def requests(self) -> list[str]:
        """The user's words, one text per prompt."""
        return [turn.request for turn in self.turns]

    @property
    def has_work(self) -> bool:
        """Whether the assistant wrote a file or committed, even if all of it was undone."""
        return any(turn.has_work for turn in self.turns)

    @property
    def only_asked(self) -> bool:
        """Whether the user asked questions and nothing was written."""
        return not self.has_work and any(request.endswith("?") for request in self.requests)


def read_record(transcript: Path) -> Record:
    """Read the last eight megabytes of a transcript's entries, and as much of what its subagents did."""
    reader = _RecordReader(transcript)
    for entry in read_tail(transcript, b'"type"'):
        reader.add(entry)
    return reader.finish()


class Conversation:
    """The places of prompts and commands in a conversation, to find where the user took some back with Escape or `/rewind`."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[int, object]] = {}
        """Place and id of each prompt or command, by the id of the entry before it; in the order of the conversation."""

    def find_place(self, entry: dict[str, Any], end: int) -> int:
        """Return the place of the next prompt or command: the `end`, or that of an earlier one that followed the same entry."""
        before, number = entry.get("parentUuid"), entry.get("uuid")
        is_given = (entry.get("type") == "user" and not _is_result(entry)) or entry.get("subtype") == _COMMAND
        if not is_given or entry.get("isMeta") or entry.get("isSidechain") or not isinstance(before, str):
            return end
        place, replaced = self._begun.get(before, (end, number))
        if replaced == number:
            place = end
        if place < end:
            self._begun = dict(takewhile(lambda begun: begun[0] != before, self._begun.items()))
        self._begun[before] = (place, number)
        return place


class _RecordReader:
    def __init__(self, transcript: Path) -> None:
        self.record = Record()
        self._transcript = transcript
        self._subagents: list[str] = []
        """Ids of the subagents whose transcripts are read."""
        self._room = _TAIL_BYTES
        """How many bytes of such transcripts may still be read."""
        self._conversation = Conversation()
        self._effects: list[list[Callable[[], object]]] = []
        """What each turn did to files, commits and to-do items, carried out at the end, when it is known which turns were taken back."""
        self.tasks: dict[str, tuple[str, bool]] = {}
        """Name of each to-do item, and whether it is done, by id."""
        self._calls: dict[str, dict[str, Any]] = {}
        self._committed: frozenset[str] = frozenset()
        self._texts: list[str] = []
        """The texts that are searched for secrets."""

    def add(self, entry: dict[str, Any]) -> None:
        self._take_back(self._conversation.find_place(entry, len(self.record.turns)))
        if (words := user_words(entry).strip()) or entry.get(_PLAN):
            self._begin(Turn(self._keep(words)))
        if not self.record.turns:
            return
        if (moment := read_moment(entry.get("timestamp"))) is not None:
            self.record.ended_at = moment
        if entry.get("isSidechain"):
            return
        begun = len(self._subagents)
        for call, result in self._add_blocks(entry):
            self._add_result(call, result)
        for number in islice(self._subagents, begun, None):  # grows by the subagents of subagents
            self._add_subagent(number)

    def _add_blocks(self, entry: dict[str, Any], *, is_main: bool = True) -> Iterator[tuple[dict[str, Any], str]]:
        """Add the assistant's words and calls; yield each call that succeeded with its result."""
        for block in blocks(entry):
            if entry.get("type") == "assistant":
                self._add_answer(block, is_main=is_main)
            elif block.get("type") == "tool_result":
                call = self._calls.pop(str(block.get("tool_use_id")), None)
                if call and not block.get("is_error"):
                    self._find_subagent(entry.get("toolUseResult"))
                    yield call, _join_text(block.get("content"))

    def _find_subagent(self, result: object) -> None:
        number = result.get("agentId") if isinstance(result, dict) else None
        if isinstance(number, str) and _AGENT_ID.fullmatch(number) and number not in self._subagents:
            self._subagents.append(number)

    def _add_subagent(self, number: str) -> None:
        """Add what a subagent wrote and committed; its prompt is not the user's, and its words and list are not the session's."""
        path = self._transcript.with_suffix("") / "subagents" / f"agent-{number}.jsonl"
        with suppress(OSError, RefusedFileError):
            size = path.stat().st_size
            for entry in read_tail(path, b'"type"', root=self._transcript.parent, most=self._room):
                for call, result in self._add_blocks(entry, is_main=False):
                    if call["name"] == "Bash" or call["name"] in _WRITING:
                        self._add_result(call, result)
            self._room = max(0, self._room - size)

    def _take_back(self, place: int) -> None:
        """Drop the turns from `place` on, which the user took back."""
        del self.record.turns[place:], self._effects[place:]

    def _begin(self, turn: Turn) -> None:
        self.record.turns.append(turn)
        self._effects.append([])

    def _add_answer(self, block: dict[str, Any], *, is_main: bool) -> None:
        turn = self.record.turns[-1] if is_main else Turn("")
        if block.get("type") == "text" and isinstance(block.get("text"), str) and block["text"].strip():
            turn.answer = self._keep(block["text"].strip())
        elif block.get("type") == "tool_use" and isinstance(block.get("input"), dict) and isinstance(block.get("name"), str):
            if block["name"] not in _LISTS:
                turn.answer = ""
            self._keep_inputs(block["input"])
            self._calls[str(block.get("id"))] = block

    def _keep_inputs(self, given: dict[str, Any]) -> None:
        """Search what the assistant ran or wrote for secrets, even if the tool failed."""
        edits = given.get("edits")
        for part in (given, *(edits if isinstance(edits, list) else ())):
            texts = [part.get(name) for name in _INPUTS] if isinstance(part, dict) else []
            for text in texts:
                if isinstance(text, str):
                    self._keep(text[:_SEARCHED])

    def _add_result(self, call: dict[str, Any], result: str) -> None:
        name, given, turn, effects = call.get("name"), call["input"], self.record.turns[-1], self._effects[-1]
        turn.used_tools = True
        path = given.get("file_path") or given.get("notebook_path")
        if name in _WRITING and isinstance(path, str):
            effects.append(partial(self.record.files.update, (path,)))
            turn.has_work = True
        elif name == "Bash" and isinstance(given.get("command"), str):
            self._add_command(given["command"])
        elif name == "TodoWrite" and isinstance(given.get("todos"), list):
            todos = [each for each in given["todos"] if isinstance(each, dict)]
            tasks = {
                str(number): (self._keep(str(each.get("content", ""))), each.get("status") == "completed")
                for number, each in enumerate(todos)
            }
            effects += [self.tasks.clear, partial(self.tasks.update, tasks)]
        elif name == "TaskCreate" and (number := _TASK.search(result)):
            effects.append(partial(self.tasks.update, {number[1]: (self._keep(str(given.get("subject", ""))), False)}))
        elif name == "TaskUpdate":
            effects.append(partial(self._update_task, str(given.get("taskId")), given.get("status")))
        elif name == "AskUserQuestion":
            turn.choices += [self._keep(f"{question} {choice}") for question, choice in _CHOICE.findall(result)]

    def _update_task(self, number: str, status: object) -> None:
        if task := self.tasks.get(number):
            self.tasks[number] = (task[0], status in ("completed", "deleted") or (task[1] and status is None))

    def _add_command(self, command: str) -> None:
        restored = [[str(Path(each)) for each in (found[1] or ".").split()] for found in _UNDO.finditer(command)]
        found = (each["heredoc"] or each["double"] or each["single"] for each in _COMMIT.finditer(command))
        commits = [self._keep(subject.strip()) for subject in found]
        self.record.turns[-1].has_work |= bool(commits)
        self._effects[-1].append(partial(self._run_command, restored, commits))

    def _run_command(self, restored: Sequence[Sequence[str]], commits: Sequence[str]) -> None:
        files = self.record.files
        for paths in restored:
            for path in set(files) - self._committed:
                if "." in paths or any(Path(path).match(each) for each in paths):
                    del files[path]
        if commits:
            self.record.commits += commits
            self._committed = frozenset(files)

    def _keep(self, text: str) -> str:
        self._texts.append(text)
        return text

    def finish(self) -> Record:
        """Mask the secrets of all texts in each, before they are split into sentences, and escape control characters."""
        from memory_assets.language.secrets import mask_known, secrets_in

        for effect in chain.from_iterable(self._effects):
            effect()
        record, known = self.record, secrets_in(self._texts)

        def clean(text: str) -> str:
            return visible(mask_known(text, known))

        for turn in record.turns:
            turn.request = visible(" ".join(without_pasted(mask_known(turn.request, known)).split()))
            turn.answer, turn.choices = clean(turn.answer), [clean(each) for each in turn.choices]
        record.files = Counter(map(clean, record.files.elements()))
        record.commits = [clean(each) for each in record.commits]
        record.open = [clean(name) for name, is_done in self.tasks.values() if not is_done]
        record.secrets = known
        return record


def read_tail(transcript: Path, *markers: bytes, root: Path | None = None, most: int = _TAIL_BYTES) -> Iterator[dict[str, Any]]:
    """Yield the last entries of a transcript whose lines contain one of the `markers`: eight megabytes, or `most` bytes, of such lines.

    Records of requests to the model are passed over, and so is a line that alone has more bytes. The first line may be cut.
    """

    def is_wanted(line: bytes) -> bool:
        return any(marker in line for marker in markers) and not line.startswith(_REQUEST)

    return json_objects(last_lines(transcript, root, most, is_wanted))


def find_taken_back(transcript: Path) -> list[tuple[datetime, datetime]]:
    """Return the times from a prompt that the user took back to what is in its place, in a transcript's last megabyte.

    A last prompt that nothing follows was taken back, too: Escape puts it into the input line again, and leaves no entry of its own.
    """
    prompts: list[datetime] = []
    found: list[tuple[datetime, datetime]] = []
    conversation = Conversation()
    is_followed = True
    with suppress(OSError, ValueError, RefusedFileError):
        for entry in read_tail(transcript, b'"type"', most=_RECENT_BYTES):
            moment = read_moment(entry.get("timestamp"))
            place = conversation.find_place(entry, len(prompts))
            is_followed = is_followed or place < len(prompts) or entry.get("type") in _FOLLOWING
            found += [(begun, moment) for begun in prompts[place : place + 1] if moment]
            del prompts[place:]
            if entry.get("type") == "user" and moment and user_words(entry).strip():
                prompts.append(moment)
                is_followed = False
    return found if is_followed else [*found, (prompts[-1], datetime.max.replace(tzinfo=UTC))]


def user_entries(transcript: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries that may hold words or a command of the user."""
    return read_tail(transcript, b'"user"', b'"queued_command"', b'"local_command"')


def user_words(entry: dict[str, Any]) -> str:
    """Return the user's words in an entry; empty if a program wrote it."""
    attachment = entry.get("attachment") if entry.get("type") == "attachment" else None
    queued: dict[str, Any] = attachment if isinstance(attachment, dict) and attachment.get("type") == _QUEUED else {}
    if _is_sent_by_program(entry) or _is_sent_by_program(queued):
        return ""
    if queued:
        texts = [_join_text(queued.get("prompt"))] if queued.get("commandMode", "prompt") == "prompt" else []
    elif entry.get("type") != "user":
        return ""
    elif _is_result(entry):
        texts = [_read_refusal(block) for block in blocks(entry)]
    else:
        texts = [block.get("text") for block in blocks(entry) if block.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str) and not is_by_program(text))


def _is_result(entry: dict[str, Any]) -> bool:
    """Whether an entry holds results of tools."""
    return bool(entry.get("toolUseResult")) or any(block.get("type") == "tool_result" for block in blocks(entry))


def _is_sent_by_program(said: dict[str, Any]) -> bool:
    """Whether the marks of an entry, or its origin, name another sender than the person: a plugin, a schedule, another session."""
    origin = said.get("origin")
    is_foreign = isinstance(origin, dict) and origin.get("kind", _PERSON) != _PERSON
    is_foreign |= said.get("turnOrigin") not in _PERSONAL_TURNS
    return is_foreign or any(said.get(name) for name in ("isMeta", "isSidechain", "isCompactSummary", "textNotTyped", _PLAN))


def is_by_program(text: str) -> bool:
    """Whether a prompt is a slash command, or a text that Claude Code wrote in the user's place."""
    return bool(_PROGRAM_TEXT.match(text))


def without_pasted(words: str) -> str:
    """Remove what Claude Code marked as pasted, code and logs from the user's words."""
    return without_logs(_PASTE.sub("", words))


def without_logs(words: str) -> str:
    """Remove code, logs and the tags around pasted text from a prompt."""
    return _PASTED.sub("", _PASTE_TAG.sub("", words))


def _read_refusal(block: dict[str, Any]) -> str:
    """Return the reason that the user gave for refusing a tool; empty for other results and without a reason."""
    _, _, reason = _join_text(block.get("content")).partition(_REFUSAL) if block.get("is_error") else ("", "", "")
    return _REMARKS.split(reason, maxsplit=1)[0].strip()


def blocks(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of an entry's message."""
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _join_text(content: object) -> str:
    parts: list[Any] = content if isinstance(content, list) else [{"text": content}]
    texts = (each.get("text") for each in parts if isinstance(each, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def read_moment(text: object) -> datetime | None:
    """Parse the time of an entry to UTC; return None if it is missing or has no time zone."""
    try:
        moment = datetime.fromisoformat(str(text))
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
