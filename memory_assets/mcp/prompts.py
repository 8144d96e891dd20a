"""What a person may pick from a client's menu: ready words to ask an assistant for."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Prompt:
    """Words with a gap for what the person adds."""

    name: str
    about: str
    argument: str
    argument_about: str
    words: str
    """With `{}` where the argument goes."""
    default: str
    """What goes there where a person adds nothing."""

    def definition(self) -> dict[str, Any]:
        """The prompt as `prompts/list` tells of it."""
        argument = {"name": self.argument, "description": self.argument_about, "required": False}
        return {"name": self.name, "description": self.about, "arguments": [argument]}

    def text(self, argument: str) -> str:
        """What the assistant is asked."""
        return self.words.replace("{}", argument.strip() or self.default)


PROMPTS = (
    Prompt(
        "remember",
        "Store something for later sessions.",
        "text",
        "What to remember; nothing for what was just said.",
        "Remember this for later sessions: {}. Write it as sentences that stand alone, with names and dates, and call `store`. "
        "If the answer names a memory that it repeats or contradicts, tell me, and ask whether the older one still holds.",
        "what I just told you",
    ),
    Prompt(
        "recall",
        "Find what is remembered about a topic.",
        "topic",
        "What it is about; nothing for the present task.",
        "Search the memory for {}, show in full what matters, and tell me in a few sentences what is known, with the ids and how old "
        "it is. Say so where nothing fits.",
        "what bears on our present task",
    ),
    Prompt(
        "learn",
        "Store what this session taught.",
        "focus",
        "What to look at; nothing for the whole session.",
        "Look back at {}. List the decisions, corrections and facts that will matter in later sessions and are not plain from the "
        "code. Search for each whether it is remembered already. Show me the list, and store what I agree to, one memory each.",
        "this session",
    ),
)
