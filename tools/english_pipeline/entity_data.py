"""Training material for the entity recogniser: cleaning, name substitution, written sentences, silver labels."""

import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc, Span

LABELS = ("PERSON", "ORG", "LOC")
NAMES_DIR = Path(__file__).parent / "names"


def _lines(name: str) -> list[str]:
    return [line for line in (NAMES_DIR / name).read_text(encoding="utf-8").splitlines() if line]


_TITLES = frozenset(_lines("titles.txt"))
_GENERIC = frozenset(_lines("not_names.txt"))

_ORG_PATTERNS = (
    "{family} Inc.", "{family} Ltd.", "{family} Group", "{family} Labs", "{family} Systems", "{family} Bank",
    "{family} & {family2}", "{family} Energy", "{family} Industries", "{family} Foundation", "{family} Partners",
    "University of {place}", "{place} University", "{place} Police Department", "{place} City Council",
    "{place} Times", "{place} Chamber of Commerce", "Bank of {place}", "{family} Corporation", "{family} Institute",
    "{place} High School", "{family} Capital", "Ministry of {field}", "Department of {field}", "{place} Airlines",
    "National {field} Agency", "{family} Software", "{place} Museum of Art", "{family} and Sons",
)  # fmt: skip
_FIELDS = ("Health", "Defense", "Education", "Energy", "Finance", "Transport", "Agriculture", "Labor", "Justice")
_LOC_PATTERNS = (
    "{family} Street", "{family} Avenue", "Lake {family}", "Mount {family}", "{family} Road", "{family} Park",
    "{family} County", "Fort {family}", "North {place}", "South {place}", "{place} Airport", "{family} Island",
    "{family} River", "{family} Valley", "Port {family}", "{family} Beach", "East {place}", "{family} Hotel",
)  # fmt: skip


class Names:
    """Random draws from lists of names written for this project."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.given = _lines("given_names.txt")
        self.family = _lines("family_names.txt")
        self.places = _lines("places.txt")
        self.organizations = _lines("organizations.txt")
        self.tools = _lines("tools.txt")
        self.sentences = _lines("sentences.txt")

    def draw(self, label: str, tokens: int | None = None) -> str:
        """Draw a name with the given label; for a person, of `tokens` words."""
        pick = self.random.choice
        if label == "PERSON":
            length = tokens or self.random.choice((1, 1, 2))
            if length == 1:
                return pick(self.given if self.random.random() < 0.65 else self.family)
            if length == 2:
                return f"{pick(self.given)} {pick(self.family)}"
            middle = pick((f"{self.random.choice('ABCDEFGHJKLMNPRSTW')}.", pick(self.given), "van", "de"))
            return f"{pick(self.given)} {middle} {pick(self.family)}"
        if label == "TOOL":
            return pick(self.tools)
        parts = {
            "family": pick(self.family),
            "family2": pick(self.family),
            "place": pick(self.places),
            "field": pick(_FIELDS),
        }
        if label == "ORG":
            return pick(self.organizations) if self.random.random() < 0.6 else pick(_ORG_PATTERNS).format(**parts)
        return pick(self.places) if self.random.random() < 0.8 else pick(_LOC_PATTERNS).format(**parts)


def clean(doc: Doc) -> Doc:
    """Return the document with the entity conventions that all sources share.

    Only PERSON, ORG and LOC are kept. A handle ("@ name" becomes "@name") and a hashtag are not entities. A person's
    title is not part of the name. A mention that is a title, a nationality or a bare common word counts as not
    annotated, because the sources contradict each other there.
    """
    words: list[str] = []
    spaces: list[bool] = []
    starts: dict[int, int] = {}
    for token in doc:
        text = token.text.replace("&amp;", "&")
        if words and words[-1] in ("@", "#") and re.match(r"\w", text):
            words[-1] += text
            spaces[-1] = bool(token.whitespace_)
        else:
            words.append(text)
            spaces.append(bool(token.whitespace_))
        starts[token.i] = len(words) - 1
    cleaned = Doc(doc.vocab, words=words, spaces=spaces)
    entities: list[Span] = []
    missing: list[Span] = []
    for entity in doc.ents:
        first, last = _whole_name(entity)
        start, end = starts[first], starts[last] + 1
        if entity.label_ not in LABELS or any(w[0] in "@#" for w in words[start:end]):
            continue
        full = Span(cleaned, start, end)
        if entity.label_ == "PERSON":
            while start < end and words[start].lower() in _TITLES:
                start += 1
        if start == end:
            missing.append(full)
        elif end - start == 1 and words[start].lower() in _GENERIC:
            missing.append(Span(cleaned, start, end))
        elif all(not any(c.isalnum() for c in w) for w in words[start:end]):
            continue
        elif not entities or entities[-1].end <= start:
            entities.append(Span(cleaned, start, end, label=entity.label_))
    cleaned.set_ents(entities, missing=missing, default="outside")
    if doc.has_annotation("SENT_START"):
        for token in doc:
            if token.is_sent_start and (starts[token.i] == 0 or starts[token.i] != starts[token.i - 1]):
                cleaned[starts[token.i]].is_sent_start = True
    return cleaned


def split_sentences(doc: Doc) -> Iterator[Doc]:
    """Yield each sentence as its own document, or the document itself if it has no sentence boundaries."""
    if not doc.has_annotation("SENT_START"):
        yield doc
        return
    for sentence in doc.sents:
        yield sentence.as_doc()


def substitute(doc: Doc, names: Names, nlp: Language) -> Doc:
    """Return a copy in which drawn names of the same kind and case replace most entities."""
    missing = {t.i for t in doc if t.ent_iob == 0}
    words: list[str] = []
    spaces: list[bool] = []
    spans: list[tuple[int, int, str]] = []
    unknown: list[int] = []
    position = 0
    for entity in (*doc.ents, None):
        stop = entity.start if entity is not None else len(doc)
        for token in doc[position:stop]:
            if token.i in missing:
                unknown.append(len(words))
            words.append(token.text)
            spaces.append(bool(token.whitespace_))
        if entity is None:
            break
        start = len(words)
        if names.random.random() < 0.85:
            name = names.draw(entity.label_, len(entity) if entity.label_ == "PERSON" else None)
            if entity.text.islower():
                name = name.lower()
            elif entity.text.isupper() and len(entity.text) > 5:
                name = name.upper()
            drawn = nlp.make_doc(name)
            words.extend(t.text for t in drawn)
            spaces.extend(bool(t.whitespace_) for t in drawn)
            spaces[-1] = bool(entity[-1].whitespace_)
        else:
            words.extend(t.text for t in entity)
            spaces.extend(bool(t.whitespace_) for t in entity)
        spans.append((start, len(words), entity.label_))
        position = entity.end
    copy = Doc(doc.vocab, words=words, spaces=spaces)
    copy.set_ents(
        [Span(copy, start, end, label=label) for start, end, label in spans],
        missing=[Span(copy, i, i + 1) for i in unknown],
        default="outside",
    )
    return copy


def lower_case(doc: Doc) -> Doc:
    """Return the document in lower case, with its entities and unannotated gaps."""
    copy = Doc(doc.vocab, words=[t.lower_ for t in doc], spaces=[bool(t.whitespace_) for t in doc])
    copy.set_ents(
        [Span(copy, e.start, e.end, label=e.label_) for e in doc.ents],
        missing=[Span(copy, t.i, t.i + 1) for t in doc if t.ent_iob == 0],
        default="outside",
    )
    return copy


def written_sentences(count: int, names: Names, nlp: Language) -> Iterator[Doc]:
    """Yield developers' notes made from this project's patterns; tools and projects in them are not entities."""
    while count:
        pattern = names.random.choice(names.sentences)
        text = ""
        spans: list[tuple[int, int, str]] = []
        for part in re.split(r"(\{[A-Z]+\})", pattern):
            if not part.startswith("{"):
                text += part
                continue
            label = part.strip("{}")
            name = names.draw(label)
            if label != "TOOL":
                spans.append((len(text), len(text) + len(name), label))
            text += name
        doc = nlp.make_doc(text)
        entities = [doc.char_span(*span[:2], label=span[2], alignment_mode="expand") for span in spans]
        if any(entity is None for entity in entities):
            continue
        doc.set_ents([e for e in entities if e is not None], default="outside")
        count -= 1
        yield doc


def silver(treebank: Iterable[Doc], teacher: Language) -> Iterator[Doc]:
    """Yield sentences of a treebank without entity annotations, with silver entity labels.

    A run of proper nouns gets its label from the hand-made list, or else from the teacher. A proper noun that neither
    labels remains unannotated, so that nothing is learned from it. Every other token outside the names found is
    labelled as outside.
    """
    listed = dict(line.split("\t") for line in _lines("treebank_names.tsv"))
    golds = [sentence.as_doc() for doc in treebank for sentence in doc.sents]
    readings = teacher.pipe(
        Doc(teacher.vocab, words=[t.text for t in gold], spaces=[bool(t.whitespace_) for t in gold]) for gold in golds
    )
    for gold, reading in zip(golds, readings, strict=True):
        copy = Doc(gold.vocab, words=[t.text for t in gold], spaces=[bool(t.whitespace_) for t in gold])
        entities: list[Span] = []
        decided: set[int] = set()
        for start, end in _proper_runs(gold):
            label = listed.get(gold[start:end].text)
            if label is not None:
                decided.update(range(start, end))
                if label != "O":
                    entities.append(Span(copy, start, end, label=label))
        for entity in reading.ents:
            tokens = range(entity.start, entity.end)
            ends_are_names = all(gold[i].pos_ == "PROPN" for i in (entity.start, entity.end - 1))
            if ends_are_names and not decided.intersection(tokens):
                decided.update(tokens)
                entities.append(Span(copy, entity.start, entity.end, label=entity.label_))
        copy.set_ents(
            entities,
            missing=[Span(copy, t.i, t.i + 1) for t in gold if t.pos_ in ("PROPN", "X") and t.i not in decided],
            default="outside",
        )
        yield copy


def _proper_runs(doc: Doc) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of proper nouns, without a person's title."""
    start = 0
    while start < len(doc):
        end = start
        while end < len(doc) and doc[end].tag_ in ("NNP", "NNPS"):
            end += 1
        name = start
        while name < end - 1 and doc[name].lower_ in _TITLES:
            name += 1
        if name < end:
            yield name, end
        start = end + 1


def _whole_name(entity: Span) -> tuple[int, int]:
    """Return the first and last token of the name that contains an entity, by the gold tree ("York" in "New York")."""
    doc, first, last = entity.doc, entity.start, entity.end - 1
    if not doc.has_annotation("DEP"):
        return first, last
    while (
        first > 0
        and doc[first - 1].tag_ in ("NNP", "NNPS")
        and doc[first - 1].dep_ in ("compound", "amod", "flat")
        and first <= doc[first - 1].head.i <= last
        and not doc[first - 1].ent_type_
    ):
        first -= 1
    while (
        last + 1 < len(doc)
        and doc[last + 1].tag_ in ("NNP", "NNPS")
        and doc[last + 1].dep_ == "flat"
        and first <= doc[last + 1].head.i <= last
        and not doc[last + 1].ent_type_
    ):
        last += 1
    return first, last
