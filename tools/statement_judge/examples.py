"""Labelled training examples for the judge of statements, from the pairs and fact families of `benchmarks/sets`.

A family has three facts about one subject: paraphrases, changed values, contraries, look-alikes and questions. Each epoch draws different
pairs of them. An example lists its possible outcomes, so that a pair known only as "not the same" teaches just that.
"""

import json
import random
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

SETS = Path(__file__).parents[2] / "benchmarks/sets"
FAMILIES = SETS / "families_train"
SAME, CHANGED, OPPOSITE, RELATED, UNRELATED = range(5)
LABELS = ("same", "changed", "opposite", "related", "unrelated")
DIFFERENT = frozenset({CHANGED, OPPOSITE})
BESIDE = frozenset({RELATED, UNRELATED})
_NUMBER = re.compile(r"(?<![\w.,:-])\d{1,4}(?![\w.,:-]*\d)")
_DRAWN = {"same": 3, "changed": 4, "opposite": 2, "lookalike": 3, "beside": 2, "unrelated": 1, "answers": 3, "silent": 3}
"""Pairs drawn per fact and epoch."""


_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_NAMES = ("", "", "", "", "Mira", "Jonas", "Priya", "Tom", "Lena")
_PROJECTS = ("", "", "atlas", "heron", "billing", "notes")
SESSIONS = 16
"""Number of sessions whose memories share one store."""
_ANSWERS, _TIMES, _OTHERS, _NEAR = 2, 2, 3, 6
"""Per question and epoch: answers drawn, repetitions of each, other texts drawn, and how many of the first hits count as nearest."""
KNOWN = (
    "de_alltag",
    "de_arbeit",
    "de_beruf",
    "de_gemischt",
    "de_heim",
    "de_kurz",
    "en_files",
    "en_home",
    "en_mixed",
    "en_private",
    "en_projects",
    "en_software",
    "en_teams",
    "en_work",
    "short_hard",
)
"""Writers whose families trained the network of 26 November 2026."""
_WORDED = {"same": 3, "replaced": 4, "holds": 5}
"""Pairs drawn per epoch and fact in several wordings."""
_LONG_WORD = 5
_EQUAL = 0.1
"""Share of facts for which a text is paired with itself."""


class Example(NamedTuple):
    """Two texts, or a question and a text, with their labels."""

    one: str
    other: str
    possible: frozenset[int]
    """Relations that `other` may have to `one`; empty for a question."""
    answers: bool | None = None
    """Whether `other` answers the question `one`; None if `one` is not a question."""
    group: str = ""
    """Writer of the example, so that writers can be held out."""

    @property
    def is_question(self) -> bool:
        """Return whether the first text is a question."""
        return self.answers is not None


def read(path: Path) -> list[Any]:
    """Return the objects of a JSON Lines file; skip an incomplete line, which another process may be writing."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def pairs() -> Iterator[Example]:
    """Yield the labelled pairs."""
    for each in read(SETS / "pairs_train.jsonl"):
        group = f"pairs-{each['writer']}-{each['lang']}"
        for _ in range(each.get("times", 1)):
            yield Example(each["a"], each["b"], frozenset({LABELS.index(each["label"])}), group=group)
    for each in read(SETS / "statements_train.jsonl"):
        possible = DIFFERENT if each["replaces"] else frozenset({SAME}) | BESIDE
        yield Example(each["old"], each["new"], possible, group=f"statements-{each['set']}")


def wordings(chance: random.Random) -> Iterator[Example]:
    """Yield facts paired with their other wordings, with replacements, and with texts that leave them valid; the older text comes first."""
    for each in read(SETS / "siblings_train.jsonl"):
        possible = DIFFERENT if each["label"] == "replaced" else BESIDE
        yield Example(each["old"], each["new"], possible, group=f"siblings-{each['lang']}")
    for fact in read(SETS / "wordings_train.jsonl"):
        says = fact["says"]
        candidates = {
            "same": (frozenset({SAME}), [(a, b) for a in says for b in says if a != b]),
            "replaced": (DIFFERENT, [(a, b) for a in says for b in fact["replaced"]]),
            "holds": (BESIDE, [(a, b) for a in says for b in fact["holds"]]),
        }
        for kind, (possible, pairs_of_kind) in candidates.items():
            for one, other in chance.sample(pairs_of_kind, min(_WORDED[kind], len(pairs_of_kind))):
                yield Example(one, other, possible, group=f"wordings-{fact['writer']}-{fact['lang']}")


def worlds(chance: random.Random) -> Iterator[Example]:
    """Yield facts that changed, and pairs of facts from the same world that hold side by side."""
    for part in ("", "_more"):
        changes, constants = read(SETS / f"changes{part}_train.jsonl"), read(SETS / f"constants{part}_train.jsonl")
        for world in sorted({each["world"] for each in changes}):
            group = f"world-{world}"
            changed = [each for each in changes if each["world"] == world]
            holding = [each["text"] for each in constants if each["world"] == world]
            for each in changed:
                texts = each["old"]["text"], each["new"]["text"]
                yield Example(*texts, DIFFERENT, group=group)
                beside = [other["old"]["text"] for other in changed if other is not each] + holding
                for text in chance.sample(beside, min(2, len(beside))):
                    yield Example(chance.choice(texts), text, BESIDE, group=group)
                yield Example(each["question"], _headed(chance.choice(texts), chance), frozenset(), True, group)
                yield Example(each["question"], _headed(chance.choice(beside), chance), frozenset(), False, group)


def silos(chance: random.Random) -> Iterator[Example]:
    """Yield pairs of sentences from memory folders: outdated ones, contradictory ones, and ones that both hold."""
    changes, constants = read(SETS / "silo_changes_train.jsonl"), read(SETS / "silo_constants_train.jsonl")
    for each in changes:
        texts = (each["outdated"], each["holds"]) if "holds" in each else (each["one"], each["other"])
        beside = [
            other["sentence"] for other in constants if other["project"] == each["project"] and other["sentence"] not in texts
        ]
        words = {word for text in texts for word in text.lower().split() if len(word) >= _LONG_WORD}
        near = sorted(beside, key=lambda text: -len(words & set(text.lower().split())))[:8]
        yield Example(*texts, DIFFERENT, group="silos")
        yield from (Example(chance.choice(texts), text, BESIDE, group="silos") for text in chance.sample(near, 4))
        if "question" in each:
            yield from (Example(each["question"], text, frozenset(), True, "silos") for text in texts)
            yield from (Example(each["question"], text, frozenset(), False, "silos") for text in chance.sample(near, 2))


def families(writers: Iterable[str], chance: random.Random, folder: Path = FAMILIES) -> Iterator[Example]:
    """Yield one epoch's examples from some writers' families."""
    for writer in writers:
        found = [each for each in read(folder / f"{writer}.jsonl") if is_whole(each)]
        for place, family in enumerate(found):
            others = [each for each in found[:place] + found[place + 1 :] if each["lang"] == family["lang"]]
            yield from (each._replace(group=writer) for each in _of_family(family, others, chance))


def hits(file: Path, chance: random.Random) -> Iterator[Example]:
    """Yield questions paired with search hits (see `hits.py`): answers, and other hits, the nearest more often."""
    for row in read(file):
        group = f"hits-{row['store']}"
        for text in chance.sample(row["answers"], min(_ANSWERS, len(row["answers"]))):
            for _ in range(_TIMES):
                yield Example(row["question"], text, frozenset(), True, group)
        others = row["others"]
        near = chance.sample(others[:_NEAR], min(_OTHERS, len(others[:_NEAR])))
        for text in [*near, *chance.sample(others[_NEAR:], min(_OTHERS, len(others[_NEAR:])))]:
            yield Example(row["question"], text, frozenset(), False, group)


def sessions(chance: random.Random, held: Collection[str] = ()) -> Iterator[Example]:
    """Yield prompts that people type while they work, paired with memories that help and others of the same person."""
    for number, session in enumerate(read(SETS / "sessions_train.jsonl")):
        if f"hits-sessions-{number // SESSIONS}" in held:
            continue
        texts = [each["text"] for each in session["memories"]]
        for prompt in session["prompts"]:
            useful = {*prompt["useful"], *(each["old"] for each in session["outdated"] if each["by"] in prompt["useful"])}
            others = [text for place, text in enumerate(texts) if place not in useful]
            for text in chance.sample(others, min(_OTHERS, len(others))):
                yield Example(prompt["text"], _headed(text, chance), frozenset(), False, "sessions")
            for place in prompt["useful"][:_ANSWERS]:
                yield Example(prompt["text"], _headed(texts[place], chance), frozenset(), True, "sessions")


def _headed(text: str, chance: random.Random) -> str:
    """Prefix a text with a day and perhaps a project or person, as in the full-text index of a store."""
    day = f"{chance.randint(1, 28)} {chance.choice(_MONTHS)} {chance.randint(2023, 2026)}"
    return f"[{', '.join(filter(None, (chance.choice(_NAMES), day, chance.choice(_PROJECTS))))}] {text}"


def is_whole(family: dict[str, Any]) -> bool:
    """Return whether a family has all required parts."""
    keys = ("says", "changed", "opposite", "lookalike", "asks")
    return len(family.get("facts", ())) > 1 and all(fact.get(key) for fact in family["facts"] for key in keys)


def _of_family(family: dict[str, Any], others: list[dict[str, Any]], chance: random.Random) -> Iterator[Example]:
    facts = family["facts"]
    for fact in facts:
        says, beside = fact["says"], [each for each in facts if each is not fact]
        told = [text for each in beside for text in each["says"] + each["changed"]]
        drawn = {
            "same": list(combinations(says, 2)),
            "changed": [(a, b) for a in says for b in fact["changed"]],
            "opposite": [(a, b) for a in says for b in fact["opposite"]],
            "lookalike": [(a, b) for a in says for b in fact["lookalike"]],
            "beside": [(a, b) for a in says for b in told],
            "unrelated": [(a, b) for a in says for each in chance.sample(others, min(3, len(others))) for b in _all_said(each)],
            "answers": [(a, b) for a in fact["asks"] for b in says + fact["changed"]],
            "silent": [(a, b) for a in fact["asks"] for b in told]
            + [(a, b) for a in fact["asks"] for b in fact["lookalike"]] * 2
            + [(a, b) for a in family.get("not_told", ()) for b in says] * 2,
        }
        label = {
            "same": SAME,
            "changed": CHANGED,
            "opposite": OPPOSITE,
            "lookalike": RELATED,
            "beside": RELATED,
            "unrelated": UNRELATED,
        }
        for kind, candidates in drawn.items():
            for one, other in chance.sample(candidates, min(_DRAWN[kind], len(candidates))):
                if kind in label:
                    yield _turned(Example(one, other, frozenset({label[kind]})), chance)
                else:
                    yield Example(one, _headed(other, chance), frozenset(), kind == "answers")
        if others:
            beyond = _headed(chance.choice(_all_said(chance.choice(others))), chance)
            yield Example(chance.choice(fact["asks"]), beyond, frozenset(), False)
        yield from _renumbered(says, chance)
        if chance.random() < _EQUAL:
            yield Example(says[0], says[0].swapcase(), frozenset({SAME}))


def _renumbered(says: list[str], chance: random.Random) -> Iterator[Example]:
    """Yield a text paired with a paraphrase whose number differs: whatever their relation, they are not the same."""
    for one, other in chance.sample(list(combinations(says, 2)), 1):
        shared = set(_NUMBER.findall(one)) & set(_NUMBER.findall(other))
        if shared:
            was = chance.choice(sorted(shared))
            now = (
                str(max(1, int(was) + chance.choice((-10, -3, -2, -1, 1, 2, 3, 5, 10))))
                if chance.random() < 0.7
                else str(int(was) * 2 + 1)
            )
            if now != was:
                changed = re.sub(rf"(?<![\w.,:-]){was}(?![\w.,:-]*\d)", now, other)
                yield _turned(Example(one, changed, frozenset({CHANGED, OPPOSITE, RELATED})), chance)


def _all_said(family: dict[str, Any]) -> list[str]:
    return [text for fact in family["facts"] for text in fact["says"]]


def _turned(example: Example, chance: random.Random) -> Example:
    return example if chance.random() < 0.5 else example._replace(one=example.other, other=example.one)
