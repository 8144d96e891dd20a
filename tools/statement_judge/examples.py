"""What the judge of statements learns from: pairs and fact families of `benchmarks/sets`, as labelled examples.

A family tells three facts of one subject: texts that say the same, changed values, contraries, look-alikes and questions. Each epoch
draws other pairs of them. An example names the outcomes that are possible, so that a pair of which only "not the same" is known teaches
just that.
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
"""Pairs of a fact that an epoch draws."""


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
"""Sessions whose memories lie in one store."""
_ANSWERS, _TIMES, _OTHERS, _NEAR = 2, 2, 3, 6
"""Answers of a question that an epoch draws, how often each, and others among the nearest hits and behind them."""
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
"""Writers from whose families the network of 26 November 2026 has learnt."""
_WORDED = {"same": 3, "replaced": 4, "holds": 5}
"""Pairs of a fact in several wordings that an epoch draws."""
_LONG_WORD = 5
_EQUAL = 0.1
"""Share of facts of which a text is put beside itself."""


class Example(NamedTuple):
    """Two texts, or a question and a text, and what is known of them."""

    one: str
    other: str
    possible: frozenset[int]
    """Relations that `other` may have to `one`; empty for a question."""
    answers: bool | None = None
    """Whether `other` answers the question `one`; None if `one` is no question."""
    group: str = ""
    """Who wrote it, for holding writers out."""

    @property
    def is_question(self) -> bool:
        """Whether the first text asks, and the second answers or does not."""
        return self.answers is not None


def read(path: Path) -> list[Any]:
    """The objects of a file, one a line; a line that is just being written is left out."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def pairs() -> Iterator[Example]:
    """The pairs with a label."""
    for each in read(SETS / "pairs_train.jsonl"):
        group = f"pairs-{each['writer']}-{each['lang']}"
        for _ in range(each.get("times", 1)):
            yield Example(each["a"], each["b"], frozenset({LABELS.index(each["label"])}), group=group)
    for each in read(SETS / "statements_train.jsonl"):
        possible = DIFFERENT if each["replaces"] else frozenset({SAME}) | BESIDE
        yield Example(each["old"], each["new"], possible, group=f"statements-{each['set']}")


def wordings(chance: random.Random) -> Iterator[Example]:
    """Facts beside their other wordings, what replaces them, and what holds beside them; the older text first."""
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
    """Facts that changed, and facts of the same world beside them."""
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
    """Sentences of memory folders: what is outdated, what contradicts, and what holds beside the two."""
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
    """An epoch's examples of some writers' families."""
    for writer in writers:
        found = [each for each in read(folder / f"{writer}.jsonl") if is_whole(each)]
        for place, family in enumerate(found):
            others = [each for each in found[:place] + found[place + 1 :] if each["lang"] == family["lang"]]
            yield from (each._replace(group=writer) for each in _of_family(family, others, chance))


def hits(file: Path, chance: random.Random) -> Iterator[Example]:
    """Questions beside what a search finds for them, see `hits.py`: what answers, and what is only near, the nearest more often."""
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
    """What people type while they work, beside the memories that help and others of the same person."""
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
    """A text behind a day and perhaps a project or a person, as the memories of a store stand in its full-text index."""
    day = f"{chance.randint(1, 28)} {chance.choice(_MONTHS)} {chance.randint(2023, 2026)}"
    return f"[{', '.join(filter(None, (chance.choice(_NAMES), day, chance.choice(_PROJECTS))))}] {text}"


def is_whole(family: dict[str, Any]) -> bool:
    """Whether a family has what it needs."""
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
    """One text beside another that says the same but for a number: whatever they are, they are not the same."""
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
