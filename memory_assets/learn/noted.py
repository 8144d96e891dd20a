"""Notes: sentences of the user that are worth keeping, found when a session ends or is compacted.

A note is a proposal: it becomes a memory only when somebody stores it. Only the user's own words in the transcript are read, not tool
results. A sentence is noted if it has a wording such as "from now on", or if the classifier `lasting` of
`memory_assets.language.classifier` finds it worth keeping.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

from memory_assets.display import visible
from memory_assets.errors import DamagedError
from memory_assets.language.classifier import load
from memory_assets.learn.transcripts import Conversation, user_entries, user_words, without_pasted
from memory_assets.models import OF_EVERY_PROJECT
from memory_assets.sources.files import read_own_file

NAME = "noted.json"
NONE = "none"
"""The kind of a sentence that is not worth keeping."""
KINDS = ("user", "feedback", "project")
LASTING_FROM = 1.5
"""Log odds from which a sentence is worth keeping: of the others in the training set, four in a hundred reach it."""
_MAX_NOTES = 100
_MAX_SETTLED = 4_000
"""Keys of settled notes, each of which has at most two."""
_MAX_SESSION_NOTES = 20
_ID_DIGITS = 8
_MAX_SENTENCES = 500
"""Sentences that are read at the beginning of a prompt, and as many at its end: nobody types more."""
SHORTEST, LONGEST = 12, 400
"""Length limits of a note, in characters."""
_CUE = re.compile(
    r"\b(?:remember (?:that|this|to)|from now on|in (?:the )?future|next time|don't ever|stop \w+ing"
    r"|please (?:don't|stop)|I (?:prefer|want you to|hate it)|we (?:decided|agreed|have decided|chose)|that(?:'s| is) (?:wrong|not right)"
    r"|don't use (?!(?:it|that|this|these|those|them)\b)[\w.-]+ (?:here|anywhere|in this (?:repo|repository|project|codebase))"
    r"|for the record)\b|^(?:bitte )?(?:ab (?:jetzt|sofort)|von (?:jetzt|nun) an|künftig|in Zukunft) (?:bitte|immer|lieber|nie|niemals)\b"
    r"|(?:^|\bplease |\byou (?:should|must) |\bwe )(?:always|never)\b|\bbitte (?:immer|stets|nie|niemals)\b",
    re.IGNORECASE,
)

_NAME = (
    r"(?:(?:Mr|Mrs|Ms|Dr|Frau|Herr)\b\.? )?(?!(?:The|This|That|It|Which|What|Who|Das|Die|Der|Wer|Was)\b)"
    r"[A-ZÄÖÜ][\w-]+(?: [A-ZÄÖÜ][\w-]+)*"
)
_ROLE = re.compile(
    rf"^{_NAME} (?:is|are) (?:\w+ )?(?:in charge of|responsible for)\b"
    rf"|^(?:[Aa]b sofort|[Aa]b \w+|[Ss]eit \w+|[Kk]ünftig|[Jj]etzt|[Nn]un) ist {_NAME} .{{1,80}}\b(?:zuständig|verantwortlich)\b"
    rf"|^{_NAME} ist (?:ab sofort|ab \w+|seit \w+|künftig|jetzt|nun) .{{1,80}}\b(?:zuständig|verantwortlich)\b"
    rf"|^{_NAME} (?:has taken|takes|took) over .{{1,80}} from {_NAME}|^{_NAME} übernimmt .{{1,80}} von {_NAME}"
    rf"|^{_NAME} hat .{{1,80}} von {_NAME} übernommen\b"
)
"""States who has which task. Starts with a person's name, not with a thing as in "the cache is responsible"."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A note: a sentence that may be worth remembering."""

    text: str
    project: str
    """Working directory of the session."""
    said_at: str
    """ISO time, or empty."""
    session: str
    kind: str = "feedback"
    """Kind of the memory that it may become: `user`, `feedback` or `project`."""

    @property
    def id(self) -> str:
        """Eight hexadecimal digits that depend on the text and the project alone and therefore never change."""
        return self.digest[:_ID_DIGITS]

    @property
    def digest(self) -> str:
        """Digest of the text and the project, kept when the note is settled; of the text alone if it holds in every project."""
        return _digest(self.text, "" if self.kind in OF_EVERY_PROJECT else self.project)

    @property
    def keys(self) -> tuple[str, ...]:
        """The digest, and one of the text and its time, which the copy of a fork in another project shares."""
        return (self.digest, f"@{_digest(self.text, self.said_at)}") if self.said_at else (self.digest,)

    @property
    def covering(self) -> frozenset[str]:
        """Keys of the notes that say this: the note itself, and the same text in no project, as earlier releases settled all."""
        return frozenset({*self.keys, replace(self, project="").digest})


def _digest(*parts: str) -> str:
    named = "\0".join(filter(None, parts))
    return hashlib.blake2b(named.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def read_noted(folder: Path) -> tuple[Noted, ...]:
    """Return the open notes of the tenant in `folder`, neither stored nor dropped, oldest first; DamagedError if they are unreadable."""
    return _read(folder).noted


def settled_ids(folder: Path) -> frozenset[str]:
    """Return the ids of the notes that were stored or dropped; raise DamagedError as `read_noted`."""
    return frozenset(key[:_ID_DIGITS] for key in _read(folder).settled if not key.startswith("@"))


def note(
    folder: Path,
    found: Sequence[Noted],
    patience_seconds: float | None = None,
    known: Mapping[str, str] | None = None,
    session: str = "",
) -> None:
    """Add sentences that are not noted, settled or erased yet; keep only the newest hundred notes.

    Notes of this `session` with one of its `known` secrets are removed: they may have been made before it showed that it is one.

    Raises:
        StoreBusyError: another process held the folder's lock for longer than `patience_seconds`; nothing was noted.
        DamagedError: the file of the notes cannot be read, and stays as it is.
    """
    if not found and not (known and (folder / NAME).exists()):
        return

    from memory_assets.language.secrets import KnownSecrets, mask_known
    from memory_assets.stores.state import FileState
    from memory_assets.stores.tombstones import Tombstones

    erased, known = Tombstones(FileState(folder)), KnownSecrets.of(known)

    def add(notes: "_Notes") -> "_Notes":
        there = {*notes.settled, *chain.from_iterable(each.keys for each in notes.noted)}
        fresh = [each for each in found if there.isdisjoint(each.covering) and not erased.find(each.text)]
        every = (*notes.noted, *fresh)
        clean = [each for each in every if each.session != session or mask_known(each.text, known) == each.text]
        return _Notes(tuple(clean[-_MAX_NOTES:]), notes.settled)

    _update(folder, add, patience_seconds)


def settle(folder: Path, settled: Sequence[Noted]) -> None:
    """Remove notes that were stored or dropped, and remember their keys, so that the same session does not add them again."""

    def remove(notes: "_Notes") -> "_Notes":
        digests = [each.digest for each in settled]
        left = tuple(each for each in notes.noted if each.digest not in digests)
        keys = chain.from_iterable(each.keys for each in settled)
        return _Notes(left, (*notes.settled, *keys)[-_MAX_SETTLED:])

    _update(folder, remove)


@dataclass(frozen=True, slots=True)
class _Notes:
    """Content of the file."""

    noted: tuple[Noted, ...] = ()
    settled: tuple[str, ...] = ()


def _read(folder: Path) -> _Notes:
    try:
        fields = json.loads(read_own_file(folder / NAME))
        return _Notes(tuple(Noted(**each) for each in fields["noted"]), tuple(map(str, fields["settled"])))
    except FileNotFoundError:
        return _Notes()
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(f"{folder / NAME} cannot be read ({error}); restore it from a backup, or remove it.") from error


def _update(folder: Path, change: Callable[[_Notes], _Notes], patience_seconds: float | None = None) -> None:
    from memory_assets.stores.files import replace_file
    from memory_assets.stores.locks import locked_in_time

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked_in_time(folder, patience_seconds=patience_seconds):
        notes = _read(folder)
        if (changed := change(notes)) != notes:
            replace_file(folder / NAME, json.dumps(asdict(changed), ensure_ascii=False))


def find_sentences(transcript: Path, project: str, session: str, known: dict[str, str] | None = None) -> list[Noted]:
    """Return the user's sentences in a transcript that are worth keeping. A sentence with a key or a password is left out.

    `known` maps secrets that the session is known to contain to their kinds; those of the user's words are added.
    """
    from memory_assets.language.secrets import KnownSecrets, marks, mask, mask_known, secrets_in
    from memory_assets.language.words import on_one_line, sentences

    every: list[str] = []
    said: list[tuple[str, object]] = []
    conversation = Conversation()
    for entry in user_entries(transcript):
        del said[conversation.find_place(entry, len(said)) :]
        if words := user_words(entry):
            every.append(words)
            said.append((words, entry.get("timestamp")))
    known = {} if known is None else known
    known.update(secrets_in(every))
    masked = KnownSecrets(known)
    found: dict[str, Noted] = {}
    for words, moment in said:
        every_sentence = sentences(without_pasted(mask_known(words, masked)))
        for sentence in every_sentence[:_MAX_SENTENCES] + every_sentence[_MAX_SENTENCES:][-_MAX_SENTENCES:]:
            text = on_one_line(visible(sentence))
            if text not in found and (kind := kind_of(text)) != NONE and not marks(mask(text)):
                said_at = moment if isinstance(moment, str) else ""
                found[text] = Noted(text, project, said_at, session, kind)
    return list(found.values())[-_MAX_SESSION_NOTES:]


def kind_of(sentence: str) -> str:
    """Return the kind of memory that a user's sentence may become; `none` if it is not worth keeping."""
    if not SHORTEST <= len(sentence) <= LONGEST or sentence.rstrip().endswith("?"):
        return NONE
    kind = classify(sentence)
    if kind == NONE and _CUE.search(sentence):
        return "feedback"
    return "project" if kind == NONE and _ROLE.search(sentence) else kind


def classify(sentence: str) -> str:
    """Return the kind of a sentence by the classifier alone; `none` if it is not worth keeping."""
    scores = load("lasting").scores(sentence)
    return max(KINDS, key=scores.__getitem__) if scores["lasting"] >= LASTING_FROM else NONE
