"""The types of entities that a memory can mention, and how the labels of spaCy pipelines map onto them."""

from dataclasses import dataclass
from enum import StrEnum


class EntityType(StrEnum):
    """The closed vocabulary of `Entity.type`."""

    PERSON = "PERSON"
    """A person, by name or by @mention."""
    ORG = "ORG"
    """A company, institution or team."""
    LOC = "LOC"
    """A place: country, city, region, building."""
    PROJECT = "PROJECT"
    """A project or code base of the user's own."""
    TOOL = "TOOL"
    """Software that is run or linked: library, framework, command-line program, editor, operating system."""
    LANGUAGE = "LANGUAGE"
    """A programming, query or markup language."""
    DATABASE = "DATABASE"
    """A database, run as a server or linked as a library."""
    SERVICE = "SERVICE"
    """A network service that someone else runs."""
    PRODUCT = "PRODUCT"
    """A product that is none of the above, such as hardware or a model family."""
    FILE = "FILE"
    """A file or folder, by path or by name."""
    ENV_VAR = "ENV_VAR"
    """An environment variable."""
    URL = "URL"
    """A web address."""
    EMAIL = "EMAIL"
    """An email address."""
    TAG = "TAG"
    """A #hashtag in the text."""
    EVENT = "EVENT"
    """A named event, such as a conference."""
    NAME = "NAME"
    """A quoted or capitalised name of unknown type."""


ADDRESSES = frozenset({EntityType.FILE, EntityType.URL, EntityType.EMAIL, EntityType.ENV_VAR})
"""Types written as an address, not as a word of a sentence."""
WRITTEN = ADDRESSES | {EntityType.TAG}
"""Types recognised by their spelling."""
PERSONAL = frozenset({EntityType.PERSON, EntityType.NAME, EntityType.ORG, EntityType.LOC})
"""Types under which a statistical model files a person's name."""

STATISTICAL_TYPES = {
    "PERSON": EntityType.PERSON,
    "PER": EntityType.PERSON,
    "ORG": EntityType.ORG,
    "LOC": EntityType.LOC,
    "GPE": EntityType.LOC,
    "FAC": EntityType.LOC,
    "PRODUCT": EntityType.PRODUCT,
    "EVENT": EntityType.EVENT,
    "WORK_OF_ART": EntityType.NAME,
    "MISC": EntityType.NAME,
    "PROJECT": EntityType.PROJECT,
}
"""Label of a pretrained pipeline -> type. Other labels (dates, numbers, nationalities, laws) are not worth a node."""


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity at its offsets in a text. A `certain` mention (a known name, a path, an @mention) wins over every guess it overlaps."""

    start: int
    end: int
    text: str
    type: EntityType
    certain: bool = True
