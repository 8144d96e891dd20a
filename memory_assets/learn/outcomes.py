"""Extraction of a session's outcome from its words: what was done, what the user decided, what is left open.

The rules, for English and German, use a sentence's position, the turn that it answers, and closed classes of words (reasons, contrasts,
"not yet"). They choose sentences and never write one: an outcome that nobody stated in its own sentence is not found.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from memory_assets.language.secrets import marks, mask
from memory_assets.language.words import sentences
from memory_assets.learn.noted import NONE, kind_of
from memory_assets.learn.transcripts import Record, Turn

_ENOUGH_WORDS = 30
"""Words in the last answers after which earlier answers are not read."""
_MIN_WORDS, _MIN_REPLY_WORDS = 4, 2
_MAX_REPLY_WORDS = 30
"""If the user answers a proposal with at most so many words and work follows, every sentence of the answer is a decision."""
_REPEATED_SHARE = 0.6
"""Share of a sentence's words that occur in an earlier one, from which it is a repetition."""
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_RULED = re.compile(r"[\s|:-]+$")
_BULLET = re.compile(r"^\s*(?:[-*•+]|\d+[.)])\s+(?:\[[ x]\]\s+)?")
_HEADING = re.compile(r"^#+\s|^\*\*[^*]+\*\*:?$|:(?:\*\*)?$")
_WORD = re.compile(r"\w{3,}")
_OPEN = re.compile(
    r"\b(?:not\b(?:\W+\w+){0,3}?\W+yet|yet to|still (?:open|missing|to|needs?|fails?|failing|pending|broken|unclear)|remain(?:s|ing)"
    r"|left(?: open| to do|:)|to[ -]?do\b|open:|outstanding|pending|follow[- ]?ups?|next(?: steps?)?\b[^:.]{0,20}:"
    r"|(?:is|are|was|were) missing"
    r"|nothing (?:is|was) (?:committed|pushed|deployed|tested)"
    r"|ha(?:ve|s)(?: not|n't)|not (?:done|tested|checked|committed|covered|documented|implemented|verified)|(?:un|not )resolved"
    r"|does(?: not|n't) work|cannot|could(?: not|n't)|untested|blocked|wait(?:s|ing) for"
    r"|nichts ist (?:committet|getestet|fertig)"
    r"|noch (?:nicht|nie|kein\w*|offen|aus|zu)|offen\b|fehl(?:t|en)\b|steh(?:t|en) aus|ausstehend|zu tun|nächste[rn]? schritte?"
    r"|(?:muss|müssen) noch|nicht (?:geprüft|getestet|committet|erledigt|fertig|umgesetzt|dokumentiert)|ungeprüft|ungetestet|ungeklärt"
    r"|wart(?:et|en) auf|funktionier(?:t|en) (?:noch )?nicht)",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"\b(?:because|since|so that|otherwise|due to|as long as|weil|damit|sonst|wegen|deshalb|nämlich|denn)\b", re.IGNORECASE
)
_CONTRAST = re.compile(
    r"\b(?:instead|rather|not|no|never|always|only|without|everywhere|don'?t|statt|stattdessen|lieber|sondern|nicht|kein\w*|nie|immer|nur"
    r"|ohne|überall)\b",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(r"^(?:\w+,? ){0,2}(?:then|dann)\b|^(?:no|nein|but|aber)\b", re.IGNORECASE)
_DEFERRED = re.compile(
    r"\b(?:later|tomorrow|tonight|next (?:time|week|month|year)|for now|not yet|still|until|will|ha(?:s|ve) to|should"
    r"|on (?:mon|tues|wednes|thurs|fri|satur|sun)day|später|morgen|nächste[nrs]?|erst|noch|bis|muss|müssen|werden?|wird|sollten?|vorerst)\b"
    r"|['’]ll\b",
    re.IGNORECASE,
)
_DONE = re.compile(r"^(?:done|fertig|erledigt)\s*[:,;–—]\s*", re.IGNORECASE)
"""A label that the summary adds itself."""
_LABEL = re.compile(r"^(?:[\w-]+ ){0,3}[\w-]+: (?=\S)")
_PROPOSAL = re.compile(
    r"\?|\b(?:could|would|either|options?|suggest|recommend|propose|könnten?|würden?|entweder|optionen|vorschlag|vorschlagen|empfehlen?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Sentences about a session's outcome, most important first."""

    done: tuple[str, ...]
    decided: tuple[str, ...]
    left_open: tuple[str, ...]


def find_outcome(record: Record) -> Outcome:
    """Find what was done, decided and left open in a session. Sentences with a secret are left out."""
    reports = [(turn.has_work, _parse_statements(turn)) for turn in _choose_reports(record)]
    reported = [text for _, report in sorted(reports, key=lambda each: not each[0]) for text, is_open in report if not is_open]
    done = _distinct(
        [*(_DONE.sub("", text) for text in reported if record.only_asked or not _PROPOSAL.search(text)), *record.commits]
    )
    waiting = [
        _LABEL.sub("", text) for _, report in (reports if record.has_work else reports[:1]) for text, is_open in report if is_open
    ]
    last = (each for each in _split_statements(record.turns[-1].request) if len(each.split()) >= _MIN_WORDS)
    # What the user put off at the end, unless it is a decision.
    deferred = (each for each in last if _DEFERRED.search(each) and not (_REASON.search(each) or _CONTRAST.search(each)))
    left_open = _distinct([*waiting, *record.open, *deferred])
    decided = _distinct([*left_open, *_find_decisions(record)])[len(left_open) :]
    is_commit = set(record.commits).__contains__
    return Outcome(tuple(sorted(done, key=lambda text: not is_commit(text))), decided, left_open)


def _choose_reports(record: Record) -> list[Turn]:
    """Choose the turns whose answers report the outcome: the last, then, until there are enough words, earlier ones with work, or all."""
    *earlier, last = [turn for turn in record.turns if turn.answer] or [Turn("")]
    if not record.has_work:
        return [last, *earlier]
    chosen = [last]
    for turn in reversed(earlier):
        if sum(len(text.split()) for each in chosen for text, _ in _parse_statements(each)) >= _ENOUGH_WORDS:
            break
        if turn.has_work:
            chosen.append(turn)
    return chosen


def _parse_statements(turn: Turn) -> list[tuple[str, bool]]:
    """Split a Markdown answer into statements, without questions, code and greetings, each with whether it names something open."""
    found: list[tuple[str, bool]] = []
    fewest = _MIN_WORDS - turn.used_tools
    below_open = False
    for line in _FENCE.sub("", turn.answer).splitlines():
        text = _BULLET.sub("", line)
        is_bullet = text != line
        if _RULED.match(text):
            continue
        cells = text.strip().strip("|").split("|") if text.strip().startswith("|") else [text]
        text = ", ".join(cell.strip() for cell in cells).lstrip("#> ").replace("**", "").strip()
        if not text:
            continue
        if _HEADING.search(line.strip()) and not is_bullet:
            below_open = bool(_OPEN.search(f"{text}:"))
            continue
        below_open = below_open and is_bullet
        found += [
            (each, below_open or bool(_OPEN.search(each)))
            for each in sentences(text)
            if len(each.split()) >= fewest and _is_statement(each) and (turn.used_tools or not each.endswith("!"))
        ]
    return found


def _is_statement(sentence: str) -> bool:
    return not sentence.endswith("?") and not marks(mask(sentence))


def _find_decisions(record: Record) -> Iterator[str]:
    """Yield the user's choices from lists, then the sentences that decide something; those of the first prompt come last."""
    yield from (choice for turn in record.turns for choice in turn.choices)
    for before, turn in pairwise(record.turns):
        yield from _find_turn_decisions(turn, before.answer)
    first = _split_statements(record.turns[0].request)
    yield from (each for each in first[1:] if _REASON.search(each) or (_CONTRAST.search(each) and kind_of(each) != NONE))


def _find_turn_decisions(turn: Turn, before: str) -> Iterator[str]:
    statements = _split_statements(turn.request)
    is_reply = turn.used_tools and bool(_PROPOSAL.search(before)) and len(turn.request.split()) <= _MAX_REPLY_WORDS
    last_yielded = -1
    for number, sentence in enumerate(statements):
        words = len(sentence.split())
        gives_reason = bool(_REASON.search(sentence))
        decides = gives_reason or bool(_CONTRAST.search(sentence) or _CONCLUSION.search(sentence))
        if (decides and words >= _MIN_WORDS - 1) or (is_reply and words >= _MIN_REPLY_WORDS) or kind_of(sentence) == "feedback":
            if gives_reason and last_yielded < number - 1:
                yield statements[number - 1]
            yield sentence
            last_yielded = number


def _split_statements(request: str) -> list[str]:
    return [sentence for sentence in sentences(request) if _is_statement(sentence)]


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    """Drop texts that mostly repeat the words of an earlier one."""
    kept: list[tuple[str, set[str]]] = []
    for text in texts:
        words = set(_WORD.findall(text.casefold()))
        if text and not any(words and len(words & known) >= _REPEATED_SHARE * len(words) for _, known in kept):
            kept.append((text, words))
    return tuple(text for text, _ in kept)
