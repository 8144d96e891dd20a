"""Wishes: what a user wants of every answer, said once ("always show the imports", "I prefer tabs", "keep it short").

They seldom share a word with the requests that they are meant for, so search looks for them by themselves. They are told by their
wording, in English, and by their kind: feedback is a wish in any language. What an assistant said is none.
"""

import re

from memory_assets.models import ASSISTANTS, Kind
from memory_assets.stores import lance

_ASKED_FOR = (
    "use|suggest|recommend|propose|compare|add|put|write|give|include|show|make|call|mention|explain|repeat|change|remove|send"
    "|provide|format|list|keep|tell|seat|book|schedule|start|end|offer"
)
_CUES = (
    r"(?:^|[.!?;:,\n] ?|\b(?:and|but|also|so) )(?:please )?"
    rf"(?:(?:always|avoid) [a-z]|(?:never|only) (?:{_ASKED_FOR}|on|before)\b|stick to\b)",
    rf"\b(?:don.?t|do not) (?:ever |just |please )?(?:{_ASKED_FOR})\b",
    r"\b(?:should|must) (?:always|never)\b",
    rf"\b(?:whenever|every time|each time|any ?time|when|if) (?:i ask|you (?:{_ASKED_FOR}|answer|help|draft|plan|describe|rewrite))\b",
    r"\bfrom now on\b|\bgoing forward\b|\bas a rule\b|\bone rule\b",
    rf"\bplease (?:\w+ly )?(?:{_ASKED_FOR}|no|only|always|never|avoid|stick)\b|\bno (?:[\w-]+ ){{1,3}}please\b",
    rf"\b(?:any|every|what|wher)(?:thing|ever) (?:\w+ )?(?:\w+ )?you (?:{_ASKED_FOR}|build|plan|draft)\b",
    r"\b(?:can|could|would) you (?:please )?(?:always|keep|only|stick)\b|[,;] (?:always|never)\b|\balways (?:with|in|as|without)\b",
    r"\bmake sure (?:you|to|that)\b|\bremember (?:to|that)\b",
    r"\bkeep (?:\w+ ){1,3}(?:short|brief|simple|concise|formal|casual|light|minimal)\b",
    r"\bi(?:.?d)? (?:\w+ly )?(?:prefer|rather|favou?r|dislike|hate|loathe|detest|avoid|value|tend to)\b",
    r"\bi (?:\w+ly )?(?:like|love) (?:to |it when )",
    r"\bi (?:can.?t|cannot) (?:stand|eat|drink|use|have|work|run|do|install|read)\b",
    r"\bi (?:need|want) you to\b|\bi want to (?:avoid|keep|stick|focus)\b|\bi.?d like to (?:avoid|keep|stick)\b",
    r"\bi (?:don.?t|do not) (?:like|want|eat|drink|use|need)\b",
    r"\b(?:i.?m|i am) (?:allergic|vegetarian|vegan|not a fan|more comfortable|most comfortable|leaning toward|keen on)",
    r"\bmy (?:preference|favou?rite)\b|\bworks best\b|\bhelps? (?:me )?(?:most|best)\b|\b(?:easier|better) for me\b|\bsuits me\b"
    r"|\bmeans? nothing to me\b",
)
_WISH = "(?i)" + "|".join(_CUES)
"""Read by Python and by Lance alike."""
_WORDING = re.compile(_WISH)

WISH_SQL = (
    f"(kind = '{Kind.FEEDBACK}' OR regexp_like(content, '{_WISH}')) AND lower(author) NOT IN {lance.quoted(sorted(ASSISTANTS))}"
)
"""`is_wish` as a Lance expression over a row of `memories`."""


def is_wish(kind: Kind, author: str, content: str) -> bool:
    """Whether a memory says how its user wants things done."""
    return (kind is Kind.FEEDBACK or bool(_WORDING.search(content))) and author.lower() not in ASSISTANTS
