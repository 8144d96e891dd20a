"""Names to nodes: which of some candidates a name means, and how sure that is.

The confidence of a candidate is the highest of

    exact     1.0, names compared without case, accents, titles and possessives, "Last, First" turned round
    fuzzy     1 - Levenshtein distance / length of the longer name, + 0.10 for the tag that was asked for, + 0.05 for an entity,
              at most 0.95
    semantic  (cosine - 0.5) * 1.9, 0 below a cosine of 0.5, at most 0.95
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from memory_assets.graph.entities import normalised

THRESHOLD = 0.85
LIMIT = 5
_CAP = 0.95
_TAG_BONUS, _ENTITY_BONUS = 0.10, 0.05
_GAP = 0.1
"""How far ahead of the second the first must be to be meant alone."""
_SHORTEST_FUZZY = 3
"""Letters from which a name may differ; "Al" is not "Ali"."""


class Status(StrEnum):
    """What came of a resolution."""

    MATCHED = "matched"
    AMBIGUOUS = "ambiguous"
    NO_MATCH = "no_match"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that a name may mean."""

    id: str
    name: str
    tags: tuple[str, ...] = ()
    """Its type or supertags."""
    entity: bool = False
    """Whether it is a person, project or thing, not a text."""
    cosine: float | None = None
    """Of its name and the one asked for, where both are embedded."""


@dataclass(frozen=True, slots=True)
class Match:
    """A candidate and how sure it is meant."""

    candidate: Candidate
    confidence: float
    how: str
    """exact, fuzzy or semantic."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The matches at or above the threshold, the surest first."""

    status: Status
    matches: tuple[Match, ...] = ()


def resolve(
    name: str, candidates: Sequence[Candidate], *, tag: str = "", threshold: float = THRESHOLD, limit: int = LIMIT
) -> Resolution:
    """Decide what `name` means: the only match, the first of several where it is clearly ahead, or none for sure.

    A name of fewer than three letters matches exactly, or within the `tag` that was asked for.
    """
    wanted = normalised(name, "PERSON")
    matches = [match for candidate in candidates if (match := _match(wanted, candidate, tag)).confidence >= threshold]
    matches = sorted(matches, key=lambda match: (-match.confidence, match.candidate.name, match.candidate.id))[:limit]
    if not matches:
        return Resolution(Status.NO_MATCH)
    clear = len(matches) == 1 or matches[0].confidence - matches[1].confidence >= _GAP - 1e-9
    return Resolution(Status.MATCHED if clear else Status.AMBIGUOUS, tuple(matches))


def _match(wanted: str, candidate: Candidate, tag: str) -> Match:
    from rapidfuzz.distance import Levenshtein

    known = normalised(candidate.name, "PERSON")
    if wanted == known:
        return Match(candidate, 1.0, "exact")
    tagged = bool(tag) and tag.casefold() in {each.casefold() for each in candidate.tags}
    if len(wanted) < _SHORTEST_FUZZY and not tagged:
        return Match(candidate, 0.0, "fuzzy")
    fuzzy = Levenshtein.normalized_similarity(wanted, known) + _TAG_BONUS * tagged + _ENTITY_BONUS * candidate.entity
    cosine = candidate.cosine or 0.0
    semantic = (cosine - 0.5) * 1.9 if cosine >= 0.5 else 0.0
    if semantic > fuzzy:
        return Match(candidate, min(_CAP, semantic), "semantic")
    return Match(candidate, min(_CAP, fuzzy), "fuzzy")
