"""Notes: sentences of the user in a session that ask to be kept, found when the session ends or is compacted.

Notes are proposals. Nothing becomes a memory until somebody stores it. Only the user's own lines of the transcript are read, not tool
results, and only sentences with a wording such as "from now on", or that `memory_assets.learn.lasting` judges to be worth keeping.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from memory_assets.display import visible
from memory_assets.errors import DamagedError
from memory_assets.learn.transcripts import user_entries, user_words, without_pasted

NAME = "noted.json"
_MOST = 100
_MOST_SETTLED = 2_000
"""Digests that are kept of what was stored or dropped."""
_MOST_OF_A_SESSION = 20
_ID_DIGITS = 8
SHORTEST, LONGEST = 12, 400
"""Letters of a note."""
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
"""Says who has which task, in plain words: somebody's name comes first, and not a thing's as in "the cache is responsible"."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A sentence that may be worth remembering."""

    text: str
    project: str
    """Folder that it was said in."""
    said_at: str
    """ISO time, or empty."""
    session: str
    kind: str = "feedback"
    """Of the memory that it becomes: `user`, `feedback` or `project`."""

    @property
    def id(self) -> str:
        """Eight hexadecimal digits that depend on the text alone, so that they never move."""
        return self.digest[:_ID_DIGITS]

    @property
    def digest(self) -> str:
        """Digest of the text, under which it is settled."""
        return hashlib.blake2b(self.text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def read_noted(folder: Path) -> tuple[Noted, ...]:
    """Return the sentences of the tenant in `folder` that are neither stored nor dropped, the oldest first.

    Raises:
        DamagedError: the file cannot be read.
    """
    return _read(folder).noted


def settled_ids(folder: Path) -> frozenset[str]:
    """Return the ids of the sentences that were stored or dropped."""
    return frozenset(digest[:_ID_DIGITS] for digest in _read(folder).settled)


def note(folder: Path, found: Sequence[Noted], patience_seconds: float | None = None) -> None:
    """Add what was found and was neither noted, settled nor erased yet; of more than a hundred the newest stay.

    Raises:
        BlockingIOError: others held the folder's lock for longer than `patience_seconds`; nothing was noted.
    """
    if not found:
        return

    from memory_assets.stores.state import FileState
    from memory_assets.stores.tombstones import Tombstones

    erased = Tombstones(FileState(folder))

    def added(held: "_Held") -> "_Held":
        known = {each.text for each in held.noted}
        fresh = [
            each for each in found if each.text not in known and each.digest not in held.settled and not erased.find(each.text)
        ]
        return _Held((*held.noted, *fresh)[-_MOST:], held.settled)

    _change(folder, added, patience_seconds)


def settle(folder: Path, settled: Sequence[Noted]) -> None:
    """Remove what was stored or dropped, for good: a session that is read once more does not bring it back."""

    def without(held: "_Held") -> "_Held":
        gone = [each.digest for each in settled]
        left = tuple(each for each in held.noted if each.digest not in gone)
        return _Held(left, (*held.settled, *gone)[-_MOST_SETTLED:])

    _change(folder, without)


@dataclass(frozen=True, slots=True)
class _Held:
    """The file: what is noted, and digests of what was noted and is settled."""

    noted: tuple[Noted, ...] = ()
    settled: tuple[str, ...] = ()


def _read(folder: Path) -> _Held:
    try:
        said = json.loads((folder / NAME).read_bytes())
        return _Held(tuple(Noted(**each) for each in said["noted"]), tuple(map(str, said["settled"])))
    except FileNotFoundError:
        return _Held()
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(f"{folder / NAME} cannot be read ({error}); restore it from a backup, or remove it.") from error


def _change(folder: Path, change: Callable[[_Held], _Held], patience_seconds: float | None = None) -> None:
    """Replace the file by what `change` makes of it, one process at a time."""
    from memory_assets.stores.files import replace_file
    from memory_assets.stores.locks import locked

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(folder, patience_seconds=patience_seconds):
        held = _read(folder)
        if (changed := change(held)) != held:
            replace_file(folder / NAME, json.dumps(asdict(changed), ensure_ascii=False))


def find_sentences(transcript: Path, project: str, session: str) -> list[Noted]:
    """What the user said in a transcript that is worth keeping; of a sentence with a key or a password nothing worth keeping is left."""
    from memory_assets.language.secrets import marks, mask
    from memory_assets.language.words import sentences
    from memory_assets.learn.lasting import NONE

    found: dict[str, Noted] = {}
    for entry in user_entries(transcript):
        for sentence in sentences(without_pasted(user_words(entry))):
            text = " ".join(visible(sentence).split())
            if text not in found and (kind := kind_of(text)) != NONE and not marks(mask(text)):
                moment = entry.get("timestamp")
                said_at = moment if isinstance(moment, str) else ""
                found[text] = Noted(text, project, said_at, session, kind)
    return list(found.values())[-_MOST_OF_A_SESSION:]


def kind_of(sentence: str) -> str:
    """The kind of the memory that a sentence of the user may become; `none` if it is not worth keeping."""
    from memory_assets.learn.lasting import NONE, judge

    if not SHORTEST <= len(sentence) <= LONGEST or sentence.rstrip().endswith("?"):
        return NONE
    kind = judge(sentence)
    if kind == NONE and _CUE.search(sentence):
        return "feedback"
    return "project" if kind == NONE and _ROLE.search(sentence) else kind
