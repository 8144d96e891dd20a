"""Entity resolution: which names in memories mean the same person or thing. docs/graph.md has the rules.

A surface is a name as a memory writes it, with its type. Each entity is one node of the graph. It has the names that are equal once
normalised, full names that differ by a misspelling, and a first or last name alone if only one full name contains it.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from memory_assets.language.entity_types import PERSONAL, WRITTEN, EntityType
from memory_assets.stores.rows import derived_id

THRESHOLD = 0.85
SAME_TYPE_BONUS = 0.10
ENTITY_BONUS = 0.05
MOST = 0.95
GAP = 0.10
_SHORTEST_FUZZY = 3
_SLIP_RATIO = 3
"""Factor by which mentions of the right spelling must exceed those of a misspelling that occurs more than once. Two names that are
both in use mean two people."""

_LONGEST_FULL = 3
"""Words of a full name up to which its first or last word may stand for it."""
_BLOCK = 40
"""Names of which all pairs are compared."""
ALONE = "alone"
"""Space of the names that a person split off."""
CALLED = "called:"
"""Prefix of a key among the spellings whose value is the name that a person chose for it."""
_DIGITS = re.compile(r"\d+")
_TITLE = re.compile(r"^(?:mr|mrs|ms|dr|prof|herr|frau)\.?\s+")
_FUZZY = PERSONAL | {EntityType.PROJECT, EntityType.EVENT}
_TRANSCRIBED = str.maketrans({"ß": "ss", "ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe"})


@dataclass(frozen=True, slots=True)
class Surface:
    """A name as memories write it."""

    text: str
    type: str
    memories: int = 1
    """Memories that mention it in this form."""


def normalised(text: str, kind: str) -> str:
    """Return the form for exact comparison: no case, accents, titles, possessive or doubled spaces; "Last, First" turned round."""
    if kind in WRITTEN:
        return text.casefold() if kind in {EntityType.EMAIL, EntityType.TAG} else text
    plain = text.casefold()
    if not plain.isascii():
        folded = unicodedata.normalize("NFKD", plain.translate(_TRANSCRIBED))
        plain = "".join(character for character in folded if not unicodedata.combining(character))
    plain = re.sub(r"['’]s?$", "", " ".join(plain.split()).lstrip("@ "))
    plain = _TITLE.sub("", plain)
    if kind in PERSONAL and (turned := re.fullmatch(r"([^,\s]+), ([^,]+)", plain)):
        plain = f"{turned[2]} {turned[1]}"
    return plain.strip(" .,;:") or " ".join(text.casefold().split())


def resolve(
    surfaces: Sequence[Surface],
    *,
    together: Iterable[tuple[str, str]] = (),
    keys: Mapping[tuple[str, str], str] | None = None,
    known: Mapping[tuple[str, str], int] | None = None,
    elsewhere: Mapping[str, Collection[int]] | None = None,
    taken: Iterable[int] = (),
) -> dict[tuple[str, str], int]:
    """Map every surface, (text, type), to the id of its entity, 53 bits. `surfaces` are all of the tenant's, or all of some divisions.

    Pairs of texts that one memory mentions (`together`) are not merged as misspellings. `keys` hold the results of `key_of`, by default
    those without spellings. `known` are the ids of an earlier resolution: a group keeps the id that most of its mentions had, of several
    its own one. `elsewhere` has the entities outside `surfaces` whose full name contains a first or last name (two suffice); `taken` are
    ids of entities outside `surfaces`.
    """
    keys = keys or {(surface.text, surface.type): key_of(surface, {}) for surface in surfaces}
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for surface in surfaces:
        names[keys[surface.text, surface.type]][surface.type] += surface.memories
    apart = {frozenset((key_of(Surface(a, "PERSON"), {}), key_of(Surface(b, "PERSON"), {}))) for a, b in together}
    merged = _merge_fuzzy(names, apart)
    merged |= _merge_partial(names, merged, elsewhere or {})
    groups: dict[str, list[Surface]] = defaultdict(list)
    for surface in surfaces:
        groups[_root(merged, keys[surface.text, surface.type])].append(surface)
    return _with_ids(groups, known or {}, taken)


def key_of(surface: Surface, spellings: Mapping[str, str]) -> str:
    """Return the key shared by names that are equal without comparison: their space and their normalised text.

    Names of a type in `WRITTEN` are compared only within it; the others share one space, because their types are often mistaken.
    `spellings` may also replace keys, as a person decided (`decided_names`). A name in the space `ALONE` equals no other.
    """
    space = surface.type if surface.type in WRITTEN else "name"
    text = surface.text if surface.type in WRITTEN else spellings.get(surface.text.casefold(), surface.text)
    key = f"{space}:{normalised(text, surface.type)}"
    return spellings.get(key, key)


def division_of(key: str) -> str:
    """Return a key's division: full names with the same initials and digits share one; any other key is its own division."""
    space, _, name = key.partition(":")
    words = name.split()
    if space != "name" or len(words) < 2:
        return key
    return " ".join(["initials", *(word[0] for word in words), *_DIGITS.findall(name)])


def own_ids(key: str) -> Iterator[int]:
    """Yield candidate ids for a new group of this key, which takes the first free one: an earlier group of the key may have an id."""
    return (derived_id(f"entity:{key}", str(attempt) if attempt else "") for attempt in count())


def lone_words(keys: Iterable[str]) -> set[str]:
    """Return the first and last names that may stand for the full names among `keys`."""
    names = [key.removeprefix("name:").split() for key in keys if key and key.startswith("name:")]
    return {word for words in names if 1 < len(words) <= _LONGEST_FULL for word in (words[0], words[-1])}


def _root(merged: Mapping[str, str], key: str) -> str:
    while key in merged:
        key = merged[key]
    return key


def _merge_fuzzy(names: Mapping[str, Counter[str]], apart: set[frozenset[str]]) -> dict[str, str]:
    """Map each misspelling to the commoner name it is merged with."""
    candidates: dict[str, dict[str, float]] = defaultdict(dict)
    for one, other, score in _slips(names):
        if frozenset((one, other)) not in apart:
            candidates[one][other] = score
    merged = {}
    for key, found in sorted(candidates.items()):
        ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        if len(ranked) == 1 or ranked[0][1] - ranked[1][1] >= GAP:
            merged[key] = ranked[0][0]
    return merged


def _slips(names: Mapping[str, Counter[str]]) -> Iterator[tuple[str, str, float]]:
    """Yield a rarer full name, a commoner one that it may misspell, and the score; a pair perhaps more than once.

    Names are compared within blocks that share one word, the initials of the others and all digits. In a block of more than `_BLOCK`
    names each is compared with its neighbours in alphabetical order, forwards and of the reversed spelling.
    """
    blocks: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for key, types in names.items():
        words = key.removeprefix("name:").split()
        if key.startswith("name:") and len(words) > 1 and _FUZZY & types.keys():
            for place, word in enumerate(words):
                blocks[place, word, division_of(key)].append(key)
    for block in blocks.values():
        runs = [sorted(block)] if len(block) > 1 else []
        if len(block) > _BLOCK:
            runs = _overlapping(runs[0]) + _overlapping(sorted(block, key=lambda key: key[::-1]))
        for run in runs:
            yield from _slips_within(run, [names[key] for key in run])


def _slips_within(keys: Sequence[str], types: Sequence[Counter[str]]) -> Iterator[tuple[str, str, float]]:
    """Yield what `_slips` yields, from all pairs of a few names given with their types."""
    import numpy as np
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    lengths = np.array([len(key) - len("name:") for key in keys])
    mentions = np.array([each.total() for each in types])
    most = np.array([_most_common_type(each) for each in types])
    rank = np.argsort(sorted(range(len(keys)), key=lambda place: (mentions[place], keys[place])))
    distances = cdist(keys, keys, scorer=Levenshtein.distance, score_cutoff=int(lengths.max()) // 4 + 1)
    plain = 1 - distances / np.maximum.outer(lengths, lengths)
    score = plain + (ENTITY_BONUS + SAME_TYPE_BONUS * np.equal.outer(most, most))
    alike = (score >= THRESHOLD) & (plain >= THRESHOLD - SAME_TYPE_BONUS)
    alike &= np.minimum.outer(lengths, lengths) >= _SHORTEST_FUZZY
    rare = (mentions == 1)[:, None] | (mentions[:, None] * _SLIP_RATIO <= mentions)
    for one, other in np.argwhere(alike & rare & np.less.outer(rank, rank)).tolist():
        yield keys[one], keys[other], min(MOST, float(score[one, other]))


def _overlapping(ordered: list[str]) -> list[list[str]]:
    """Return runs of `_BLOCK` names, each of which shares half with the next."""
    return [ordered[start : start + _BLOCK] for start in range(0, len(ordered) - _BLOCK // 2, _BLOCK // 2)]


def _most_common_type(types: Counter[str]) -> str:
    """Return the type of most mentions; NAME only if there is no other."""
    return max(types, key=lambda kind: (kind != EntityType.NAME, types[kind], kind))


def _merge_partial(
    names: Mapping[str, Counter[str]], merged: Mapping[str, str], elsewhere: Mapping[str, Collection[int]]
) -> dict[str, str]:
    """Map each first or last name alone to the only full name that contains it, or to the `_anchor` of the only entity elsewhere."""
    full: dict[str, set[str]] = defaultdict(set)
    for word, entities in elsewhere.items():
        full[word] |= {_anchor(number) for number in entities}
    for key, types in names.items():
        if EntityType.PERSON in types:
            for word in lone_words([key]):
                full[word].add(_root(merged, key))
    return {
        key: next(iter(owners))
        for key, types in names.items()
        if key.startswith("name:")
        and EntityType.PERSON in types
        and key not in merged
        and len(owners := full.get(key.removeprefix("name:"), set())) == 1
    }


def _anchor(entity: int) -> str:
    """Return a placeholder key for an entity that is not being resolved."""
    return f"entity:{entity}"


def _with_ids(
    groups: Mapping[str, Sequence[Surface]], known: Mapping[tuple[str, str], int], elsewhere: Iterable[int]
) -> dict[tuple[str, str], int]:
    taken = {number: _anchor(number) for number in elsewhere}
    ids = {anchor: number for number, anchor in taken.items() if anchor in groups}
    claims: list[tuple[int, bool, int, str]] = []
    for root, members in groups.items():
        own = next(own_ids(root))
        votes: Counter[int] = Counter()
        for surface in members:
            if number := known.get((surface.text, surface.type)):
                votes[number] += surface.memories
        claims += [(-weight, number != own, number, root) for number, weight in votes.items()]
    for *_, number, root in sorted(claims):
        if root not in ids and number not in taken:
            taken[number], ids[root] = root, number
    for root in sorted(groups):
        if root not in ids:
            ids[root] = next(number for number in own_ids(root) if number not in taken)
            taken[ids[root]] = root
    return {(surface.text, surface.type): ids[root] for root, members in groups.items() for surface in members}
