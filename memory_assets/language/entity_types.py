"""What kinds of thing a memory can name, and how the labels of spaCy pipelines map onto them."""

from dataclasses import dataclass
from enum import StrEnum


class EntityType(StrEnum):
    """The closed vocabulary of `Entity.type`."""

    PERSON = "PERSON"
    """A human being, by name or by @mention."""
    ORG = "ORG"
    """A company, institution or team."""
    LOC = "LOC"
    """A place: country, city, region, building."""
    PROJECT = "PROJECT"
    """An undertaking or code base of the user's own."""
    TOOL = "TOOL"
    """Software that is run or linked: library, framework, command-line program, editor, operating system."""
    LANGUAGE = "LANGUAGE"
    """A programming, query or markup language."""
    DATABASE = "DATABASE"
    """A store of data that is run as a server or linked as a library."""
    SERVICE = "SERVICE"
    """What someone else runs and one uses over the network."""
    PRODUCT = "PRODUCT"
    """A thing one buys that is none of the above, such as hardware or a model family."""
    FILE = "FILE"
    """A file or folder, by path or by name."""
    ENV_VAR = "ENV_VAR"
    """An environment variable."""
    URL = "URL"
    """A web address."""
    EMAIL = "EMAIL"
    """A mail address."""
    TAG = "TAG"
    """A #hashtag in the text."""
    EVENT = "EVENT"
    """A named happening, such as a conference."""
    NAME = "NAME"
    """A quoted or capitalised name of which nothing more is certain."""


ADDRESSES = frozenset({EntityType.FILE, EntityType.URL, EntityType.EMAIL, EntityType.ENV_VAR})
"""Types of what is written as an address, which is no word of a sentence."""
WRITTEN = ADDRESSES | {EntityType.TAG}
"""Types that are known by how they are written."""
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
"""Labels of pretrained pipelines; others (dates, numbers, nationalities, laws) name nothing worth a node."""


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity at its place in a text; a `certain` one (a known name, a path, an @mention) wins over every guess that it touches."""

    start: int
    end: int
    text: str
    type: EntityType
    certain: bool = True
