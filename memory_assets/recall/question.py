"""What a question says besides its words: the terms that matter, the time it speaks of, and who speaks in it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING

from memory_assets.stores.writing import folded, is_unspaced, pieces

if TYPE_CHECKING:
    from memory_assets.language.intervals import Interval

_WORD = re.compile(r"[^\W_]+(?:[.+#'’_-]*[^\W_]+)*[+#]*")

_FUNCTION_WORDS = frozenset(
    """
    a about after again all also am an and any anybody anyone anything are aren't as at be because been before being but by can
    can't could couldn't did didn't do does doesn't doing don't during each ever every for from get gets getting give go going got
    had hadn't has hasn't have haven't having he he's her here hers herself him himself his how i i'd i'll i'm i've if in into is
    isn't it it's its itself just know let let's like made make many may me might mine more most much must my myself no not of off
    on once one only or other our ours ourselves out over own please quite rather really said same say says she she's should
    shouldn't so some somebody someone something still such tell than that that's the their theirs them themselves then there
    there's these they they're this those through to too up upon us very want was wasn't we we're we've were weren't what what's
    whatever when when's where where's whether which while who who's whom whose why will with won't would wouldn't you you'd
    you'll you're you've your yours yourself remind remember recall mention mentioned
    """.split()  # noqa: SIM905
)
"""English words that carry no topic: function words and the words that turn a statement into a question."""

_POLITE = re.compile(r"\b(?:can|could|would|will)\s+you\b|\bdo\s+you\s+(?:know|remember|recall|think|have)\b", re.IGNORECASE)
"""Asks for an answer, not about what the one addressed said."""
_FIRST_PERSON = frozenset({"i", "i'm", "i've", "i'd", "i'll", "me", "my", "mine", "myself", "we", "our", "ours", "us", "we've"})
_SECOND_PERSON = frozenset({"you", "your", "yours", "you've", "you'd", "you're", "yourself"})

_YOU_SAID = re.compile(
    r"(?<!when )(?<!whenever )(?<!if )(?<!should )(?<!must )\byou(?:'ve|’ve| have| had)?(?: \w+ly)?"
    r" (?:suggest|recommend|advi[sc]e|propose|explain|tell|told|sa[iy]|g[ai]ve|wr[io]te|mention|list|show|warn)"
    r"|\baccording to you\b|\byour (?:\w+ )?(?:advice|explanations?|ideas?|propos\w+|recommend\w+|suggest\w+|tips?|warnings?)\b",
    re.IGNORECASE,
)
"""Asks about what the one addressed said, even if "me" or "my" stands in it."""
_MAYBE_TIME = re.compile(
    r"\d|\b(?:yesterday|today|tonight|ago|last|past|previous|this|current|since|before|until|till|prior|early|late|mid|recent\w*"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|jan\w*|feb\w*|mar(?:ch)?|apr\w*|may|june?|july?|aug\w*|sep\w*|oct\w*|nov\w*|dec\w*"
    r"|spring|summer|autumn|fall|winter)\b",
    re.IGNORECASE,
)
"""Every time expression contains one of these, so that a question without them need not be read for times."""


_HIRAGANA = re.compile("[\u3041-\u309f]+")
"""The syllables in which Japanese writes its grammar."""
_REQUEST = re.compile(
    r"\b(?:can|could|would|will|should) (?:you|i|we)\b|\bplease\b|\bhelp me\b|\bhow (?:do|might) (?:i|we)\b"
    r"|\bwhat.{0,20} (?:should|would|could)\b|\bi(?:['’]m| am) (?:planning|looking|trying|thinking|preparing|about)\b"
    r"|\bi(?:['’]d like| want| need| would like) |\b(?:any|some) (?:tips|ideas|recommendations|suggestions|advice)\b"
    r"|^\W*(?:write|make|plan|draft|design|suggest|recommend|give|show|explain|create|rewrite|propose|find|compare|translate|prepare"
    r"|set up|build|implement|help|describe|walk me|generate|organi[sz]e|review|improve|fix|choose|pick|ideas|tips)\b",
    re.IGNORECASE,
)
"""Asks for something to be done or advised."""
_OF_THE_PAST = re.compile(
    r"\b(?:did|was|were|had|happened|(?:have|['’]ve) (?:i|we|been)|i['’]ve|i (?:said|told|mentioned|asked|chose|decided|brought)"
    r"|how (?:many|much|long|often)|when|summar\w+|across|in (?:\w+ )?order|order (?:in|of)|so far)\b",
    re.IGNORECASE,
)
"""Asks for what was, which wishes do not tell."""
_AT_PRESENT = re.compile(
    r"^(?!.*\b(?:did|was|were|had|happened)\b).*\b(?:do|does|is|are|am|should|may|can)\b.*\btoday\b", re.IGNORECASE | re.DOTALL
)
""""What do I use today": the present, not something that was said on this day."""


def words(text: str) -> list[str]:
    """The words of a text, lower-case, without a possessive ending."""
    return [_bare(word) for word in _WORD.findall(text.lower())]


def _bare(word: str) -> str:
    return word[:-2] if word.endswith(("'s", "’s")) else word


def replace_words(text: str, other: Callable[[str, bool], str | None]) -> str:
    """The text with other words where `other` gives one, told the word as it is written, and whether it has a possessive ending."""

    def replaced(found: re.Match[str]) -> str:
        bare = _bare(found[0])
        return other(bare, bare != found[0]) or found[0]

    return _WORD.sub(replaced, text)


def topic_words(text: str) -> list[str]:
    """The words of a text that carry its topic, repetitions kept, and what stands for words in scripts without spaces."""
    unspaced = pieces(text)
    telling = [piece for piece in unspaced if not _HIRAGANA.fullmatch(piece)]
    return [word for word in words(text) if word not in _FUNCTION_WORDS and not is_unspaced(word)] + (telling or unspaced)


def _occurs(term: str, text: str) -> bool:
    """Whether a term stands in a text with neither letter nor digit beside it; faster than a regular expression."""
    start = text.find(term)
    while start >= 0:
        end = start + len(term)
        if not text[max(0, start - 1) : start].isalnum() and not text[end : end + 1].isalnum():
            return True
        start = text.find(term, start + 1)
    return False


@dataclass(frozen=True)
class Question:
    """A query as recall understands it."""

    text: str
    terms: tuple[str, ...]
    """Topic words, folded, each once; empty where the query has function words alone."""
    interval: "Interval | None"
    """The time it names, if it names one."""
    is_request: bool
    """It asks for something to be done or advised ("draft a letter", "how do I ..."): what the user wants of every answer applies."""
    to_listener: bool
    """It asks about what the one addressed said ("what did you recommend to me"), not its speaker ("where did I park")."""

    def terms_in(self, text: str) -> set[str]:
        """Which of the terms occur in a text as whole words; "C" does not where only "C++" does."""
        text = folded(text)
        found: set[str] = set()
        for term in self._longest_first:
            if _occurs(term, text):
                found.add(term)
                if term in self._longer:
                    text = re.sub(rf"(?<![^\W_]){re.escape(term)}(?![^\W_])", "\0", text)
        return found

    @cached_property
    def _longest_first(self) -> list[str]:
        return sorted(self.terms, key=len, reverse=True)

    @cached_property
    def _longer(self) -> set[str]:
        """Terms that hold another one."""
        return {term for term in self.terms if any(other in term and other != term for other in self.terms)}

    @property
    def keywords(self) -> str:
        """What full text looks for: the query without question and function words; the whole query if nothing else is left.

        Words with endings grown onto them (Korean) are looked for as they are, too: whoever says the same says more.
        """
        whole = [word for word in words(self.text) if is_unspaced(word)]
        return " ".join(dict.fromkeys([*whole, *topic_words(self.text)])) or self.text


def understand(text: str, now: datetime, zone: tzinfo) -> Question:
    """Read a query.

    Args:
        text: words or a question, not blank.
        now: aware; what "yesterday" counts from.
        zone: whose calendar "yesterday" is measured on.
    """
    interval = None
    if _MAYBE_TIME.search(text) and not _AT_PRESENT.search(text):
        from memory_assets.language.intervals import find_interval

        interval = find_interval(text, now, zone)
    impolite = _POLITE.sub(" ", text)
    spoken = set(words(impolite))
    return Question(
        text=text,
        terms=tuple(dict.fromkeys(map(folded, topic_words(text)))),
        interval=interval,
        is_request=bool(_REQUEST.search(text)) and not _OF_THE_PAST.search(text),
        to_listener=bool(_YOU_SAID.search(impolite) or (spoken & _SECOND_PERSON and not spoken & _FIRST_PERSON)),
    )
