"""Detection of keys and passwords in text: by known token shapes, by the name before a value, and by randomness.

Every pattern is bounded and does not restart within its match, so the cost is linear in the length of the text.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from memory_assets.language.secret_places import CLOSING, PATTERNS
from memory_assets.language.secret_values import is_random
from memory_assets.language.token_shapes import SHAPES
from memory_assets.language.unseen import has_unseen, is_seen, without_unseen

_TOKEN = re.compile(
    r"(?:(?<![A-Za-z0-9])(?<![A-Za-z0-9]_)(?<![A-Za-z0-9]__)|(?<=%[0-9A-Fa-f]{2}))(?=[A-Za-z0-9])(?:"
    + "|".join(f"({shape})" for shape in SHAPES.values())
    + r")(?![A-Za-z0-9])",
    re.ASCII,
)
_KINDS = ("", *SHAPES)
_TAG_TOKEN = re.compile(_TOKEN.pattern, re.ASCII | re.IGNORECASE)
_RUN = re.compile(r"[A-Za-z0-9_.~+/=:@-]{18,}", re.ASCII)
"""Runs of characters in which tokens are searched."""
_ID = r"(?:asst|build|chatcmpl|cs|dpl|job|msg|msgbatch|pi|prj|req|resp|run|task|thread|toolu|trace)[_-]"
"""What the ids of known services begin with."""
_UNKNOWN_TOKEN = re.compile(
    rf"(?<![\w/.+-])(?!{_ID})[A-Za-z]{{2,12}}(?:[_-][A-Za-z0-9]{{1,8}}){{0,2}}[_-](?P<value>[A-Za-z0-9]{{30,200}})(?![\w/+=-])",
    re.ASCII,
)
"""The common shape of modern tokens: a prefix that names the issuer, then a random part."""
_KEY_BLOCK = re.compile(
    r"-----?[ ]?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?[ ]?-----?"
    r"(?:(?:[^-]|-(?!---)){16,20000}-----?[ ]?END [A-Z0-9 ]{0,60}-----?|(?:(?:\s|\\[nr]){0,4}[A-Za-z0-9+/=]{32,100}){1,400})"
    r"|Private-Lines:[ \t]?\d{1,4}(?:(?:\r|\\r)?(?:\n|\\n)[ \t]{0,20}[A-Za-z0-9+/=]{4,100}(?![\w:-])){1,400}"
)
"""A block between dashes, or PuTTY's."""
_SHORTEST_REPEATED = 8
"""Characters of a secret that is searched in the rest of the text."""
_PUNCTUATION = "!?…&*;"
"""Characters that end a password or the sentence that names it."""
_FEW = 32
"""Secrets up to which searching each is faster than looking at every place of a text."""
_MAX_HYPHENS = 2
"""Hyphens in a name."""
_CLUES = frozenset(clue for clues, *_ in PATTERNS for clue in clues)
_LOGIN = "://"
"""What precedes the user of an address."""
_MARK = re.compile(r"\[secret: ([a-z0-9 ]{1,30})\]")
_LONGEST_MARK = len("[secret: ]") + 30


@dataclass(frozen=True, slots=True, order=True)
class Secret:
    """A secret's offsets in a text, and its kind."""

    start: int
    end: int
    kind: str


class KnownSecrets(dict[str, str]):
    """Secrets that are masked in other texts, and their kinds. It stays as it is once a text was searched for them."""

    @classmethod
    def of(cls, known: Mapping[str, str] | None) -> "KnownSecrets":
        """Return the same object if it is one."""
        return known if isinstance(known, cls) else cls(known or {})

    @cached_property
    def searched(self) -> dict[str, str]:
        """Kinds of those that are searched in other texts, in small letters."""
        spelt = ((each.lower(), kind) for secret, kind in self.items() for each in _spellings(secret) if not _is_plain_name(each))
        return {each: kind for each, kind in spelt if len(each) >= _SHORTEST_REPEATED}

    @cached_property
    def lengths(self) -> dict[str, set[int]]:
        """Lengths of those that are searched, by their first characters."""
        lengths: defaultdict[str, set[int]] = defaultdict(set)
        for secret in self.searched:
            lengths[secret[:_SHORTEST_REPEATED]].add(len(secret))
        return dict(lengths)

    @cached_property
    def _others(self) -> set[str]:
        return {each.lower() for each in self} - self.searched.keys()

    def covers(self, secret: str) -> bool:
        """Whether it has this secret, in any casing."""
        return secret in self or secret.lower() in self.searched

    def may_occur(self, text: str) -> bool:
        """Whether a text may hold one of them, even one that is found only beside its name."""
        lowered = text.lower()
        return len(lowered) != len(text) or any(each in lowered for each in self._others) or any(_find_repeats(text, self))


def find_secrets(text: str, name: str = "", known: Mapping[str, str] | None = None) -> list[Secret]:
    """Return the secrets in a text, in order, without overlaps; `name` is the text's name, such as its key in a JSON object.

    A secret is found wherever the text repeats it; `known` maps secrets of other texts to their kinds. Invisible characters
    cannot hide a secret: the text is searched both with and without them.
    """
    if not text:
        return []
    if name:
        before = len(name) + 2
        found = find_secrets(f"{name}: {text}", known=known)
        shifted = (Secret(max(0, each.start - before), each.end - before, each.kind) for each in found if each.end > before)
        return _merge_overlaps([*shifted, *_tag_tokens(text)])
    known = KnownSecrets.of(known)
    found = list(_search(text, known))
    if has_unseen(text):
        places = [place for place, char in enumerate(text) if is_seen(char)]
        seen = "".join(text[place] for place in places)
        found += (Secret(places[each.start], places[each.end - 1] + 1, each.kind) for each in _search(seen, known))
    return _merge_overlaps(found)


def mask(text: str, name: str = "", known: Mapping[str, str] | None = None) -> str:
    """Replace the secrets that `find_secrets` finds by `[secret: kind]`; returns the same object if there is none."""
    for secret in reversed(find_secrets(text, name, known)):
        text = f"{text[: secret.start]}[secret: {secret.kind}]{text[secret.end :]}"
    return text


def secrets_in(texts: Iterable[str]) -> "KnownSecrets":
    """Map the secrets of texts that belong together to their kinds, so that each of them can be masked in all (`known`)."""
    return KnownSecrets({repeatable(text, each): each.kind for text in texts for each in find_secrets(text)})


def repeatable(text: str, secret: Secret) -> str:
    """Return what another text that repeats a secret shows: the secret, or the whole login if its user has the same name."""
    value = text[secret.start : secret.end]
    login = f"{_LOGIN}{value}:{value}@"
    return without_unseen(login if text[: secret.end + 1].endswith(login) else value)


def mask_known(text: str, known: Mapping[str, str]) -> str:
    """Mask a text that `secrets_in` searched: as `mask`, but a text without any of the `known` secrets is not searched again."""
    known = KnownSecrets.of(known)
    return mask(text, known=known) if has_unseen(text) or known.may_occur(text) else text


def marks(text: str) -> list[str]:
    """Return the kinds of the masked secrets in a text, in order."""
    return _MARK.findall(text)


def replace_marks(text: str, stand_in: str) -> str:
    """Replace every mark of a masked secret in `text` by `stand_in`."""
    return _MARK.sub(stand_in, text)


def left_out(text: str) -> str:
    """Replace every secret and every mark of a masked one by an ellipsis."""
    return replace_marks(mask(text), "…")


def _search(text: str, known: "KnownSecrets") -> Iterator[Secret]:
    found = list(_search_new(text))
    yield from found
    yield from _find_repeats(text, KnownSecrets({repeatable(text, each): each.kind for each in found}))
    yield from _find_repeats(text, known)


def _spellings(secret: str) -> set[str]:
    """Return the secret, also without the punctuation of the sentence that named it; which of them it is, nobody can tell."""
    bare = secret.rstrip(_PUNCTUATION)
    return {secret, bare} if len(bare) >= _SHORTEST_REPEATED else {secret}


def _find_repeats(text: str, known: "KnownSecrets") -> Iterator[Secret]:
    """Yield every place of the secrets in a text, in any casing. A plain name is searched nowhere: sentences use it, too."""
    if not known:
        return
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text
    lengths = known.lengths
    if len(lengths) <= _FEW and not any(beginning in lowered for beginning in lengths):
        return
    for start in range(len(text) - _SHORTEST_REPEATED + 1):
        for length in lengths.get(lowered[start : start + _SHORTEST_REPEATED], ()):
            end = start + length
            kind = known.searched.get(lowered[start:end])
            if kind and not _is_inside_word(text, start) and not _is_inside_word(text, end):
                is_login = lowered.startswith(_LOGIN, start)
                yield Secret(lowered.rindex(":", start, end) + 1, end - 1, kind) if is_login else Secret(start, end, kind)


def _is_plain_name(value: str) -> bool:
    """Whether a value is a word, or a name of up to three words such as a project's; more words are a passphrase."""
    is_name = value.count("-") <= _MAX_HYPHENS and value.replace("_", "").replace("-", "").isalpha()
    return is_name and (value[1:].islower() or value.isupper())


def _is_inside_word(text: str, place: int) -> bool:
    return text[place - 1 : place].isalnum() and text[place : place + 1].isalnum()


def _search_new(text: str) -> Iterator[Secret]:
    for run in _RUN.finditer(text):
        for match in _TOKEN.finditer(text, run.start(), run.end()):
            yield Secret(*match.span(), _KINDS[match.lastindex or 0])
        for match in _UNKNOWN_TOKEN.finditer(text, run.start(), run.end()):
            if is_random(match["value"]):
                yield Secret(*match.span(), "token")
    yield from _tag_tokens(text)
    yield from _search_named(text)
    if "PRIVATE KEY" in text or "Private-Lines" in text:
        for match in _KEY_BLOCK.finditer(text):
            yield Secret(*match.span(), "private key")


def _tag_tokens(tag: str) -> Iterator[Secret]:
    """Yield the token that was normalised to this tag: lower-cased, with hyphens for underscores."""
    if not (tag.islower() and _RUN.fullmatch(tag)):
        return
    for spelt in dict.fromkeys((tag, tag.replace("-", "_", 1), tag.replace("-", "_"))):
        if match := _TAG_TOKEN.fullmatch(spelt):
            yield Secret(*match.span(), _KINDS[match.lastindex or 0])


def _search_named(text: str) -> Iterator[Secret]:
    lowered = text.lower()
    held = {clue for clue in _CLUES if clue in lowered}
    for clues, pattern, kind_of in PATTERNS if held else ():
        groups = [name for name in ("value", "next") if name in pattern.groupindex]
        for match in () if held.isdisjoint(clues) else pattern.finditer(text):
            if _is_marked(text, match.start()):
                continue
            for group in groups:
                if not match[group]:
                    continue
                value = _without_punctuation(match[group])
                if kind := kind_of(match, value):
                    start, end = match.span(group)
                    yield Secret(start, _closing_quote(text, start, end) or start + len(value), kind)


def _without_punctuation(value: str) -> str:
    """Return a value without the punctuation of the sentence after it, but with the bracket that closes its own."""
    bare = value.rstrip(".,;:)]}*")
    after = value[len(bare) : len(bare) + 1]
    is_closed = any(after == closing and bare.count(opening) > bare.count(closing) for opening, closing in ("()", "[]"))
    return bare + after if is_closed else bare


def _closing_quote(text: str, start: int, end: int) -> int:
    """Return the place of the quote that closes the quote before a value, in its line after `end`; 0 if there is none."""
    closing = CLOSING.get(text[max(0, start - 1) : start])
    line = text[end : end + 60].partition("\n")[0]
    return end + len(line.partition(closing)[0].rstrip("\\")) if closing and closing in line else 0


def _is_marked(text: str, place: int) -> bool:
    """Return whether a position is inside a mark, whose kind does not name the text after it."""
    mark = _MARK.match(text, max(0, text.rfind("[", max(0, place - _LONGEST_MARK), place)))
    return mark is not None and place < mark.end()


def _merge_overlaps(found: list[Secret]) -> list[Secret]:
    """Merge overlapping secrets; the merged one has the kind of the first, or of the longest where several begin."""
    kept: list[Secret] = []
    for secret in sorted(found, key=lambda each: (each.start, -each.end)):
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
        elif secret.end > kept[-1].end:
            kept[-1] = Secret(kept[-1].start, secret.end, kept[-1].kind)
    return kept
