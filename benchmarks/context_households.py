"""The second kind of invented world for `context_quality.py`: nine months of a household's conversations with its assistant.

Each undertaking (a journey, a rebuilding, a celebration) has a day, a place, a price, a helper, a wish and an open point. They come up in
conversations in which the assistant adds generic advice. Half of the changes are stored as replacements, half are only mentioned later.
Each relative has a food they must not eat and a gift they wish for, mentioned far from any undertaking.
"""

import random
from datetime import UTC, datetime, timedelta

from context_teams import Fact, Task

from memory_assets.models import Kind, NewMemory, Source, State
from memory_assets.stores.rows import derived_id

RELATIVES = ["Tove", "Matteo", "Agnes", "Ruben", "Sunniva", "Idris", "Paloma", "Casper", "Yrsa", "Florian"]
UNDERTAKINGS = {
    "the journey to Porto": ("journey", "Porto"),
    "the week in Tromso": ("journey", "Tromso"),
    "the journey to Ghent": ("journey", "Ghent"),
    "the attic conversion": ("rebuilding", "attic"),
    "the new bathroom": ("rebuilding", "bathroom"),
    "the greenhouse": ("rebuilding", "greenhouse"),
    "the silver wedding": ("celebration", "wedding"),
    "the housewarming": ("celebration", "housewarming"),
}
PLACES = {
    "journey": ["the Casa Azul guesthouse", "a flat above the fish market", "the Hotel Lindgren", "a cabin near the harbour"],
    "rebuilding": ["the Hagen joinery", "the two brothers from Lier", "the Moen workshop", "a retired plumber called Stian"],
    "celebration": ["the boathouse", "the Kastanje restaurant", "the parish hall", "the garden of the neighbours"],
}
OPEN = {
    "journey": ["the insurance for the rental car", "the seats on the night train", "a permit for the ridge walk"],
    "rebuilding": ["the neighbour's signature", "a skip for the rubble", "the colour of the window frames"],
    "celebration": ["a sound system", "the vegetarian menu", "chairs for the older guests"],
}
WISHES = [
    "no stairs anywhere because of the knee",
    "everything finished before the school term",
    "a room that faces east",
    "nothing that smells of fresh paint",
    "at least one quiet hour a day",
    "bills on paper only",
]
FOODS = ["walnuts", "shellfish", "raw onions", "goat cheese", "celery", "buckwheat"]
GIFTS = ["a hand plane", "a star map", "a cast iron pan", "a loom", "a barometer", "a bicycle pump"]
ADVICE = [
    "It helps to write a list first and to look at it once a week.",
    "Many people find it useful to compare two or three offers.",
    "I can remind you whenever you like; just say so.",
    "Remember to take breaks and to drink enough water.",
    "That sounds like a good plan, let me know how it goes.",
    "A calendar shared by everybody often prevents misunderstandings.",
    "There are many opinions about this and none is simply right.",
    "Shall I look for more ideas of this kind?",
]
SMALL_TALK = [
    "The cat slept on the keyboard again.",
    "It rained the whole day and the gutter overflowed.",
    "I burnt the toast while talking.",
    "The bus was late, as it always is on Mondays.",
    "We watched an old film and fell asleep.",
    "My back hurts from the old chair.",
]
MUSINGS = [
    "I keep thinking about {u}, I am looking forward to it.",
    "Told a colleague about {u} today; she was envious.",
    "Any thoughts on {u}? Nothing urgent.",
    "{u} came up at dinner, no news though.",
    "I had a dream about {u}, quite odd.",
]


class Household:
    """One household's memories and its coming tasks."""

    def __init__(self, number: int, undertakings: int) -> None:
        self._random = random.Random(7_919 * (number + 1))
        self._start = datetime(2026, 1, 5, 18, tzinfo=UTC)
        self._count = 0
        self.memories: list[NewMemory] = []
        self.tasks: list[Task] = []
        relatives = self._random.sample(RELATIVES, len(RELATIVES))
        self._foods = {each: Fact(f"{each} must not eat {food}") for each, food in zip(relatives, FOODS * 2, strict=False)}
        self._gifts = {each: Fact(f"wishes for {gift}") for each, gift in zip(relatives, GIFTS * 2, strict=False)}
        for each in relatives:
            self._note(self._random.randrange(260), f"{self._foods[each].holds}, the doctor said so.", Kind.USER)
            self._talk(self._random.randrange(260), [f"Overheard that {each} {self._gifts[each].holds}."])
        for name in self._random.sample(list(UNDERTAKINGS), undertakings):
            self._undertaking(name, relatives)
        for _ in range(50):
            self._talk(self._random.randrange(265), [])

    def _undertaking(self, name: str, relatives: list[str]) -> None:
        kind, word = UNDERTAKINGS[name]
        pick, sample = self._random.choice, self._random.sample
        before, now = sample([f"{day} {month}" for day in range(2, 28) for month in ("October", "November")], 2)
        first = self._talk(20, [f"We begin with {name} on {before}."])
        self._talk(180, [f"About {name}: {before} does not work any more, we begin on {now}."], replaces=pick([first, None]))
        day = Fact(f"begin on {now}", [f"{name} on {before}"])
        old, new = sample(PLACES[kind], 2)
        first = self._talk(40, [f"For {name} we settled on {old}."], Kind.PROJECT)
        self._talk(170, [f"Changed my mind: not {old} but {new} for {name}."], replaces=pick([first, None]))
        place = Fact(f"but {new}", [f"settled on {old}"])
        cost = self._random.randrange(11, 98) * 100 + 50
        price = Fact(f"at most {cost} euros")
        self._note(self._random.randrange(30, 90), f"The {word} may cost {price.holds} altogether.", Kind.PROJECT)
        helper, other = sample(relatives, 2)
        self._talk(60, [f"{other} helps us with {name}."])
        self._talk(200, [f"{helper} helps with {name} instead of {other}, who has no time."])
        help_ = Fact(f"{helper} helps with {name}", [f"{other} helps us with {name}"])
        wish = Fact(pick(WISHES))
        self._talk(self._random.randrange(20, 200), [f"What matters to me for {name}: {wish.holds}."])
        open_ = Fact(pick(OPEN[kind]))
        self._talk(self._random.randrange(225, 262), [f"Still missing for {name} is {open_.holds}."])
        for _ in range(14):
            text = pick(MUSINGS).format(u=name)
            self._note(self._random.randrange(265), f"{text[0].upper()}{text[1:]} {pick(SMALL_TALK)}", Kind.NOTE)
        self.tasks += [
            Task(f"book what is still missing for {name}", "planning", [open_, day, place, price]),
            Task(f"cook for everyone who helps with {name}", "meeting-prep", [help_, self._foods[helper], day]),
            Task(f"write a letter about {name} to those who take part", "writing", [day, place, wish, help_]),
            Task(f"thank the one who helps with {name}", "general", [help_, self._gifts[helper]]),
        ]

    def _talk(self, day: int, facts: list[str], kind: Kind = Kind.NOTE, replaces: int | None = None) -> int:
        """Add a conversation: the person mentions a fact among other things, the assistant answers with generic advice."""
        said = self._random.sample(SMALL_TALK, self._random.randrange(1, 3))
        for fact in facts:
            said.insert(self._random.randrange(len(said) + 1), fact)
        advice = self._random.sample(ADVICE, self._random.randrange(2, 6))
        return self._note(day, f"User: {' '.join(said)}\nAssistant: {' '.join(advice)}", kind, replaces)

    def _note(self, day: int, text: str, kind: Kind, replaces: int | None = None) -> int:
        self._count += 1
        number = derived_id(f"household:{self._count}", text)
        if replaces is not None:
            place = next(place for place, memory in enumerate(self.memories) if memory.id == replaces)
            old = self.memories[place]
            state, by = State.SUPERSEDED, number
            self.memories[place] = NewMemory(
                old.content, Source.IMPORT, old.kind, id=old.id, created_at=old.created_at, state=state, superseded_by=by
            )
        created = self._start + timedelta(days=day, minutes=self._count)
        self.memories.append(NewMemory(text, Source.IMPORT, kind, id=number, created_at=created))
        return number
