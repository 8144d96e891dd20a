"""The third kind of invented world for `context_quality.py`: a laboratory's notebook.

Each experiment has a sample, an instrument, a temperature, a person in charge, a known fault and a next step, noted in short protocol
lines; a line that belongs to the day's experiment does not name it. Most changes are only noted later, few are stored as replacements.
Instruments have quirks and people have habits, noted far from any experiment. Nothing in `memory_assets` was tuned to this world.
"""

import random
from datetime import UTC, datetime, timedelta

from context_teams import Fact, Task

from memory_assets.models import Kind, NewMemory, Source
from memory_assets.stores.rows import derived_id

PERSONS = ["Dr. Okonjo", "Li Wen", "Marisol", "Anders", "Keiko", "Dr. Haas", "Babak", "Ilse"]
EXPERIMENTS = [
    "the perovskite ageing run",
    "the yeast growth curve",
    "the membrane leak test",
    "the laser alignment series",
    "the soil column study",
    "the enzyme cold screen",
    "the graphene transfer trial",
    "the magnet quench check",
]
SAMPLES = [
    "batch K-14",
    "batch R-3",
    "the blue vials",
    "wafer 88",
    "plate seven",
    "the Norwegian cores",
    "lot 2206",
    "tube rack C",
]
INSTRUMENTS = [
    "the old spectrometer",
    "the glovebox",
    "cryostat B",
    "the confocal microscope",
    "the small centrifuge",
    "the probe station",
]
QUIRKS = [
    "drifts for an hour after it was switched on",
    "loses its log when the lid opens",
    "reads two degrees too low",
    "needs the filter changed every third run",
    "jams when more than six tubes are loaded",
    "is reserved for teaching on Thursdays",
]
HABITS = [
    "wants raw data as plain text files",
    "is only in the building before noon",
    "asks for error bars on everything",
    "prefers to be called, not written to",
    "signs protocols on paper",
    "needs two days' notice",
]
FAULTS = ["a leak at the lower valve", "a stain on the reference", "a gap in the night readings", "an unlabelled control"]
STEPS = ["order fresh argon", "repeat the blank", "calibrate the scale", "send the aliquots to Uppsala", "fit the second curve"]
ROUTINE = [
    "Emptied the waste and filled the logbook.",
    "Cleaned the bench, nothing unusual.",
    "Safety round done.",
    "Ordered gloves and tips.",
    "The corridor lights flickered again.",
    "Group lunch, talked about the conference.",
]


class Laboratory:
    """One laboratory's notes and its coming tasks."""

    def __init__(self, number: int, experiments: int) -> None:
        self._random = random.Random(104_729 * (number + 3))
        self._start = datetime(2026, 2, 2, 8, tzinfo=UTC)
        self._count = 0
        self.memories: list[NewMemory] = []
        self.tasks: list[Task] = []
        shuffled = [self._random.sample(each, len(each)) for each in (INSTRUMENTS, QUIRKS, PERSONS, HABITS * 2)]
        self._quirks = {each: Fact(quirk) for each, quirk in zip(shuffled[0], shuffled[1], strict=True)}
        self._habits = {each: Fact(habit) for each, habit in zip(shuffled[2], shuffled[3], strict=False)}
        for each, fact in (self._quirks | self._habits).items():
            self._note(self._random.randrange(200), f"{each[0].upper()}{each[1:]} {fact.holds}.", Kind.REFERENCE)
        for name in self._random.sample(EXPERIMENTS, experiments):
            self._experiment(name)
        for _ in range(60):
            self._note(self._random.randrange(210), " ".join(self._random.sample(ROUTINE, 2)))

    def _experiment(self, name: str) -> None:
        pick, sample = self._random.choice, self._random.sample
        batch, earlier = sample(SAMPLES, 2)
        self._note(15, f"{name[0].upper()}{name[1:]}: we measure {earlier}.")
        self._note(120, f"{name[0].upper()}{name[1:]} now runs on {batch}; the other material is used up.")
        material = Fact(f"now runs on {batch}", [f"we measure {earlier}"])
        instrument = pick(list(self._quirks))
        self._note(self._random.randrange(20, 60), f"Booked {instrument} for {name}.", Kind.PROJECT)
        device = Fact(f"Booked {instrument} for {name}")
        warm, warmer = sample(range(4, 90), 2)
        self._note(30, f"Set point of {name}: {warm} degrees.")
        self._note(140, f"Raised objections: {warm} degrees ruined the last points of {name}, {warmer} degrees from today.")
        heat = Fact(f"{warmer} degrees from today", [f"{name}: {warm} degrees"])
        person, before = sample(list(self._habits), 2)
        self._note(10, f"{before} is in charge of {name}.")
        self._note(150, f"{person} is in charge of {name}; {before} went to the beamline.")
        charge = Fact(f"{person} is in charge of {name}", [f"{before} is in charge of {name}"])
        fault, step = Fact(pick(FAULTS)), Fact(pick(STEPS))
        self._note(self._random.randrange(150, 200), f"While checking {name} we found {fault.holds}.")
        self._note(self._random.randrange(200, 210), f"Next for {name}: {step.holds}.", Kind.PROJECT)
        for _ in range(12):
            self._note(self._random.randrange(210), f"Looked after {name}. {pick(ROUTINE)}")
        self.tasks += [
            Task(f"start {name} tomorrow morning", "planning", [material, heat, device, self._quirks[instrument]]),
            Task(f"tell the one in charge what went wrong in {name}", "meeting-prep", [charge, self._habits[person], fault]),
            Task(f"write the methods section on {name}", "writing", [material, heat, device]),
            Task(f"what has to happen next in {name}, and who decides", "general", [step, charge]),
        ]

    def _note(self, day: int, text: str, kind: Kind = Kind.NOTE) -> None:
        self._count += 1
        number = derived_id(f"laboratory:{self._count}", text)
        created = self._start + timedelta(days=day, minutes=self._count)
        self.memories.append(NewMemory(text, Source.IMPORT, kind, id=number, created_at=created))
