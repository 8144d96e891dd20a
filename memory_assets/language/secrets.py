"""Detection of keys and passwords in text: by known token shapes, by the name before a value, and by randomness.

Every pattern is bounded and does not restart within its match, so the cost is linear in the length of the text.
"""

import base64
import binascii
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from memory_assets.language.token_shapes import SHAPES
from memory_assets.language.unseen import has_unseen, is_seen
from memory_assets.language.words import function_words

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

_QUOTES = "\"'`“”„‚‘’«»"
_NAME = r"""
    (?= [a-pr-uwz] )  # rules out most places at once
    (?P<name> (?P<password> pass(?:word|wd|phrase|code|wort) | kennwort | (?<![a-z]) (?: (?:root|admin|user|db)?pwd?
                | (?:become|root|admin|user|db|database|mysql|pg|postgres|redis|mongo|smtp|imap|mail|ftp|ldap|proxy)_?pass
                | (?P<weak> pass ) (?= [QUOTES*]{0,3} [ \t]{0,3} [:=] ) | (?:wpa_)?(?<![0-9])psk (?=[ \t]?=)
                | (?:wi-?fi|wlan|wpa[23]?)[ -]?(?:key|schlüssel) ) )
            | (?: api | access | secret | private | encryption | signing | master | auth | deploy | license | storage | account
                | service )[ _-]?(?:access[ _-]?)?key(?:_base)? | app_key | pre-?shared[ _-]?key
            | (?: openai | anthropic | claude | mistral | groq | deepl | stripe | sendgrid | twilio | mailgun )[ _-]?(?:key|schlüssel)
            | (?: api | zugangs | zugriffs | geheim )[ -]?schlüssel
            | schlüssel (?= [ \t]+ (?: fürs | (?:für|zu)[ \t]+d(?:as|ie|er) | der | des | zur | zum ) [ \t] [^\n:=]{0,20}? \bapi\b )
            | client[ _-]?secret | (?P<signing> (?:jwt|session|cookie|hmac|nextauth)_secret ) | secret | token | credentials?
            | (?<![a-z])auth )
    [0-9]{0,3}
""".replace("QUOTES", _QUOTES)
_ESCAPE = r"\\{1,3}(?=[\"'])"
"""The backslashes of a quote in a quoted JSON text."""
_CLOSING = dict(zip("\"'`“„‘‚«»", "\"'`”“’‘»«", strict=True))
"""Opening quote -> the closing one."""
_VALUE = (
    rf"(?:[^\s{_QUOTES}<>\\]|(?<=[\w!#$%*?@;^&~])(?:[\"'`](?=[\w!#$%*?@^&~])|[<>](?=[\w!#$%*?@^&~])(?![A-Za-z][\w-]{{0,20}}/?>)"
    rf"|\\(?![\s{_QUOTES}\\nrtu]))){{6,400}}"
)
"""A value up to the next white space; a quote, bracket or backslash belongs to it between two of its characters, unless a tag begins."""
_QUOTED = r"(?<=\\[\"'])[^\s\"'\\](?:[^\"'\\\n]{4,200})[^\s\"'\\](?=\\{1,3}[\"'])|" + "|".join(
    rf"(?<=(?<!\\){opening})(?=\S)(?:[^{closing}\\\n]|\\.){{6,200}}(?<!\s)(?={closing})" for opening, closing in _CLOSING.items()
)
"""A value up to the quote that closes it."""
_FROM = rf"(?:from|von)(?=[ \t]+[{_QUOTES}]?{_VALUE}[{_QUOTES}]?[ \t]+(?:to|auf)[ \t])"
_IS = (
    r"(?:[ \t]+(?:is|was|are|were|(?:has|had)(?=[ \t]+(?:now[ \t]+)?been\b)|ist|war|wird|wurde|lautet|hei(?:ß|ss)t|bleibt"
    r"|changed|reset|set)"
    r"(?:[ \t]+(?:been|now|again|still|currently|just|changed|set|reset|rotated|updated|switched|to"
    r"|jetzt|nun|neu|wieder|noch|aktuell|auf|not|nicht(?:[ \t]+mehr)?"
    rf"|(?:seit|since)[ \t]+\w{{4,10}}|{_FROM})){{0,5}}(?![^\s:{_QUOTES}]))"
)
"""Phrases that assign a value in a sentence: "is now", "was changed to", "wurde auf"."""
_LAYOUT = r"[ \t]?\([^\n()]{1,30}\)[*_]{0,2}[ \t]?[:=][ \t] | [ \t]{0,20}[|—–][ \t] | [ \t]?:[*_]{0,2}\s{1,9}[-*+][ \t]"
"""Signs of the next cell of a table, a dash, a list below the name, or a remark in brackets."""
_CALLED = re.compile(
    rf"""
    {_NAME}
    (?: [ \t]+ (?:for|from|of|at|on|to|in|von|vom|für|im|am|an|bei|beim|zu|zum|zur|des|der|fürs) [ \t] (?:[^\n:=]|:\d){{1,40}}? )??
    (?: [{_QUOTES}*_)\]] | {_ESCAPE} ){{0,4}} [ \t]{{0,3}}
    (?P<sign> :=? | =>? | -> | → | {_IS} | ,?\s{{1,40}}["']?value["']?[ \t]?[:=] | (?P<layout> {_LAYOUT} )
            | [ \t]+ (?: {_FROM} | (?:to|auf) (?![ \t]+\S+[ \t]*(?:[:=]|[ \t](?:is|was|ist|war|lautet)[ \t])) ) )
    (?: [ \t]{{0,3}} [|>][+-]? [ \t]{{0,3}} \n [ \t]{{1,40}} )?  # a block of YAML
    (?: [:\s{_QUOTES}*(] | {_ESCAPE} ){{0,6}}
    (?P<value> {_QUOTED} | {_VALUE} )
    (?= (?: [{_QUOTES}*)]{{0,3}} [,;]? [ \t]{{1,3}} (?: to | auf | -> | → | (?:it['’]?s|it[ \t]is|but|sondern)(?:[ \t]now)? )
            [\s{_QUOTES}*(]{{1,4}} (?P<next> {_VALUE} ) )? )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SETS = re.compile(
    r"\b(?:re)?set(?:s|ting)?\b|\b(?:chang|updat|rotat|switch|renew)\w{0,5}|\b(?:um|ver|zurück)?(?:ge)?(?:änder|setz|stell|wechsel)\w{0,4}",
    re.IGNORECASE,
)
_NEAR = 60
"""Characters on both sides of "password to VALUE" within which a verb of setting is searched."""
_PHRASE = re.compile(
    r"(?:pass[ -]?phrase|(?:seed|recovery)[ -]?phrase|mnemonic|passwort|password|kennwort)\b"
    rf"(?P<between>[^\n:=.{_QUOTES}]{{0,40}}?)"
    rf"(?P<sign>[:=]|\b(?:is|was|ist|lautet)\b|{_IS}(?=[ \t][{_QUOTES}])|(?=[ \t][{_QUOTES}]))[ \t*_]{{0,4}}"
    rf"(?P<quote>[{_QUOTES}]?)(?P<value>[^\W_]{{2,16}}(?:[ -][^\W_]{{2,16}}){{2,23}})(?=[{_QUOTES}]|\Z|(?P<clause>[.;,!)]))",
    re.IGNORECASE,
)
"""A passphrase: consecutive words that are quoted, end the text, or are hyphenated up to the end of a clause."""
_SEED = re.compile(
    r"(?i:\b(?:(?:seed|recovery)[ -]?(?:phrase|words?)|mnemonic(?:[ -](?:phrase|seed))?)\b"
    rf"(?:[^\n:=]{{0,40}}?(?:[:=]|{_IS}|(?=[ ][{_QUOTES}])))?)[\s*_{_QUOTES}]{{0,4}}(?:1[.):]?[ ]{{1,2}})?"
    r"(?!(?:\S{1,10}\s{1,3}){0,11}(?:and|are|das|den|der|die|eine|for|from|has|ist|mit|not|oder|the|und|was|wir|with)\b)"
    r"(?P<value>[a-z]{3,10}(?:(?:[ ,]{1,3}|[ ,]{0,2}\n[ ]{0,3}(?:[-*][ ])?)(?:\d{1,2}[.):]?[ ]{1,2})?[a-z]{3,10}){11,23})"
    rf"(?=[ \t]*(?:[.;!)*_{_QUOTES}]|\n|\Z))"
)
"""The words of a wallet, in a line or a list: none is one of those that make a sentence."""
_PIN = re.compile(
    rf"\b(?:PIN|[Pp]in[ -]?[Cc]ode|(?:[Mm]y|[Oo]ur)[ \t]pin)\b[^\n:=\d]{{0,40}}?(?:[:=]|{_IS})[ \t{_QUOTES}*]{{0,4}}"
    r"(?P<value>\d{4,8}(?:-\d{2,4}(?![\d-]))?)(?!\d)"
)
_BARE = re.compile(rf"{_NAME} [ \t]{{1,3}} (?P<quote>[{_QUOTES}]?) (?P<value> [a-z0-9] {_VALUE} )", re.IGNORECASE | re.VERBOSE)
_HEADER = re.compile(
    r"(?i)(?<![a-z])(?:bearer|basic|authorization[\"']?[ \t]?[:=][ \t]?[\"']?token)[ \t]{1,3}(?P<value>[A-Za-z0-9._~+/=-]{12,2000})",
    re.ASCII,
)
_IN_ADDRESS = re.compile(
    r"://[^\s:@/\"'<>]{0,64}:(?P<value>[^\s/\"'<>]{3,200}|(?!\d{1,5}/)[^\s/@\"'<>][^\s@\"'<>]{2,200})@",
)
"""A password up to the last "@" before a slash; one with a slash up to the first."""
_USER_OF_ADDRESS = re.compile(r"://(?P<value>[A-Za-z0-9_-]{32,200})(?::x-oauth-basic)?@")
_SIGNATURE = re.compile(r"[?&]sig=(?P<value>[A-Za-z0-9%+/]{43,90}=?)")
"""The signature of an address, such as that of Azure's storage, which grants access to it."""
_ON_COMMAND_LINE = re.compile(
    r"(?:\b(?:docker|podman|nerdctl|helm[ \t]+registry)[ \t]+login\b[^\n]{0,120}?\s(?:-p|--password)[ \t=]{1,3}"
    r"|\b(?:mysql|mysqldump|mariadb)\b[^\n]{0,80}?\s-p|\bsshpass\s+-p\s{0,3}"
    r"|\bcurl\b[^\n]{0,120}?\s(?:-u|--user)\s{0,3}[\"']?[^\s:\"']{1,64}:)[\"']?(?P<value>[^\s\"'`]{6,200})"
)
_PSQL = re.compile(r"\bpsql\b[^\n]{0,80}?\s-W[ \t]{0,3}[\"']?(?P<value>[^\s\"'`]{6,200})")
_PAIR = re.compile(
    rf"(?i)\b(?:logins?|cred(?:ential)?s|account|zugang(?:sdaten)?|(?:anmelde|login)daten)\b[^\n:/]{{0,40}}?(?::|{_IS}|\bare\b)[ \t]{{1,3}}"
    rf"[{_QUOTES}]?[\w.@+-]{{2,60}}[{_QUOTES}]?[ \t]{{0,2}}/[ \t]{{0,2}}[{_QUOTES}]?(?P<value>[^\s{_QUOTES}/]{{6,64}})"
)
_LOGIN = re.compile(
    rf"(?i)\b(?:logins?|cred(?:ential)?s|(?:zugangs|anmelde|login)daten)\b[^\n:/]{{0,40}}?(?::|\bare\b)[ \t]{{1,3}}"
    rf"[{_QUOTES}]?[a-z][\w.@+-]{{1,59}}:(?P<value>[^\s{_QUOTES}/:]{{6,64}})"
)
"""A user and a password separated by a colon."""
_ELEMENT = re.compile(
    r"<[\w:.-]{0,40}(?:password|passwd|passwort|passphrase)>\s{0,9}(?P<value>[^\s<>]{6,200})\s{0,9}</", re.IGNORECASE
)
_NETRC = re.compile(r"(?m)^[ \t]{0,9}machine\s{1,9}\S{1,99}\s{1,9}login\s{1,9}\S{1,99}\s{1,9}password\s{1,9}(?P<value>\S{6,200})")
_SHORT_NAME = re.compile(
    rf"(?:\bpwd?|\bPASSWOR[DT])[ \t]{{1,3}}(?P<value>[^\W_]{_VALUE})(?=[ \t]{{1,3}}(?:for|für)\b|[ \t]*(?:\n|\Z))"
)
"""A value directly after "pw": no sentence ends with "pw" and a word."""
_NUMBERED = re.compile(
    r"(?:pass(?:wort|word|phrase)|kennwort)[ \t]?:[ \t]{1,3}(?P<value>[^\W\d_]{2,16}[ \t](?:und|and|&)[ \t][^\W\d_]{2,16}[ \t]\d{1,4})"
    r"(?=[ \t.!]*(?:\n|\Z))",
    re.IGNORECASE,
)
"""Two nouns and a number, up to the end of the line."""
_ONE_TIME = re.compile(
    r"(?i:\b(?:t?otp|2fa|mfa|authenticator)[ _-]?(?:secret|seed|key|schlüssel)\b[^\n:=]{0,40}?[\s:=\"'`]{1,4})"
    r"(?P<value>[A-Z2-7]{16,64}|(?:[A-Z2-7]{4}[ -]){3,15}[A-Z2-7]{4})(?![A-Za-z0-9])"
)
"""A TOTP seed in base32."""
_RECOVERY_CODE = r"(?:[a-z0-9]{4,10}(?:-[a-z0-9]{4,10}){1,4}|\d{6,10}|\d{4}[ ]\d{4})(?![\w-])"
_RECOVERY = re.compile(
    r"(?i)\b(?:(?:recovery|rescue)[ -]codes?|(?:backup|scratch)[ -]codes|(?:wiederherstellungs|notfall|backup-?)codes?)\b[^\n:]{0,40}?"
    rf"(?::|\b(?:is|are|ist|sind|lautet|lauten)\b)[\s*-]{{1,6}}(?P<value>{_RECOVERY_CODE}"
    rf"(?:(?:[ \t]*[,;/][ \t]*|[ \t]+)(?:(?:and|und)[ \t]+)?{_RECOVERY_CODE}|\s{{1,4}}(?:[*-][ ]{{1,3}})?{_RECOVERY_CODE}){{0,31}})"
)
_PLACEHOLDER = re.compile(
    r"""
    [<{\[(|…] | \.{3} | \*\*
    | \$ (?: [({] | [a-z_]\w* (?: (?:->|[.:\[]) .* )? \Z | (?:[1-9]\w?|apr1|argon2\w*|scrypt|pbkdf2[\w-]*) \$ )
    | % (?: [({] | [drsv]\b | \w+% ) | \#\{ | [\#&]\w*;?\Z | &(?:lt|gt|amp|quot|nbsp|\#\w+);
    | [bfru]{1,2}["'] | !(?:vault|secret|env\w*|ref|sub|getatt)\Z  # tags of YAML
    | (?:arn|urn|sha1|sha256|sha512|md5): | \d+-[a-z]+\Z | \d{4}-\d\d-\d\d(?:t[\d:.]+(?:z|[+-][\d:]+)?)?\Z
    | \d+(?:[.,]\d+)?[kmgt]?(?:Wh?|Wp|VA?|Ah?|Hz)(?![a-z0-9])
    | (?! (?=\D*\d) [^!\#$^*?]*[!\#$^*?]+\w )  # digits and marks make a word a password
      (?: x{3,} | y?our[-_. ] | (?:my|the|some|any|test|dummy|fake|sample|example|change|replace|insert|redacted|hidden
            |placeholder|undefined|optional|required|1password|bitwarden|keepass|lastpass)(?![a-z]*\d)
        | (?:sha|md|base|argon|bcrypt|pbkdf|aes|rsa|utf|oauth|v)[-_]?\d+(?:id)?(?![a-z0-9])
        | (?:pass(?:word|wd)?|pwd?|secret|token|user(?:name)?|none|null|true|false|string|str|env)\b )
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""A placeholder or a reference in the position of a secret."""
_CODE = re.compile(
    r"(?![A-Z]\S*\d\d\Z)[A-Za-z_]+(?:\d?\.[A-Za-z_]\w*)+|[A-Za-z_][\w.:>-]*!?[(\[](?!\d+[)\]][!#$%^&*?]).*|[a-z]+(?:[_-][a-z]+)+",
    re.ASCII,
)
"""A name, a call or hyphenated words."""
_KEY_ID = re.compile(r"(?:0x)?(?:[0-9A-F]{8}|[0-9A-F]{16}|[0-9A-F]{40})")
"""A PGP key's id or fingerprint."""
_ABOUT = re.compile(r"(?i)error|message|prompt|field|label|hint|rule|polic|fehler|meldung|hinweis|feld")
"""What is between a password's name and a sentence about it."""
_DEMAND = re.compile(r"(?i)\b(?:least|must|characters|digits|mindestens|zeichen|ziffern|passwor[dt])\b")
"""What is in a sentence that says which passwords are allowed, and in no passphrase."""
_NAME_IN_PATH = re.compile(r"(?:[a-z]?[A-Z]{0,5}[^\W\dA-Z]*|[A-Z_]*)\d*")
_HEX = re.compile(r"[0-9a-fA-F]+")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SHORTEST_REPEATED = 8
"""Characters of a secret that is searched in the rest of the text."""
_MARK = re.compile(r"\[secret: ([a-z0-9 ]{1,30})\]")
_LONGEST_MARK = len("[secret: ]") + 30


@dataclass(frozen=True, slots=True, order=True)
class Secret:
    """A secret's offsets in a text, and its kind."""

    start: int
    end: int
    kind: str


def find_secrets(text: str, name: str = "", known: Mapping[str, str] | None = None) -> list[Secret]:
    """Return the secrets in a text, in order, without overlaps; `name` is the text's name, such as its key in a JSON object.

    A secret is found wherever the text repeats it; `known` maps secrets of other texts to their kinds. Invisible characters
    cannot hide a secret: the text is searched both with and without them.
    """
    if name:
        before = len(name) + 2
        found = find_secrets(f"{name}: {text}", known=known)
        shifted = (Secret(max(0, each.start - before), each.end - before, each.kind) for each in found if each.end > before)
        return _merge_overlaps([*shifted, *_tag_tokens(text)])
    found = list(_search(text, known or {}))
    if has_unseen(text):
        places = [place for place, char in enumerate(text) if is_seen(char)]
        seen = "".join(text[place] for place in places)
        found += (Secret(places[each.start], places[each.end - 1] + 1, each.kind) for each in _search(seen, known or {}))
    return _merge_overlaps(found)


def mask(text: str, name: str = "", known: Mapping[str, str] | None = None) -> str:
    """Replace the secrets that `find_secrets` finds by `[secret: kind]`; returns the same object if there is none."""
    for secret in reversed(find_secrets(text, name, known)):
        text = f"{text[: secret.start]}[secret: {secret.kind}]{text[secret.end :]}"
    return text


def marks(text: str) -> list[str]:
    """Return the kinds of the masked secrets in a text, in order."""
    return _MARK.findall(text)


def replace_marks(text: str, stand_in: str) -> str:
    """Replace every mark of a masked secret in `text` by `stand_in`."""
    return _MARK.sub(stand_in, text)


def left_out(text: str) -> str:
    """Replace every secret and every mark of a masked one by an ellipsis."""
    return replace_marks(mask(text), "…")


def _search(text: str, known: Mapping[str, str]) -> Iterator[Secret]:
    found = list(_search_new(text))
    yield from found
    if found or known:
        yield from _find_repeats(text, {**known, **{text[each.start : each.end]: each.kind for each in found}})


def _find_repeats(text: str, kinds: Mapping[str, str]) -> Iterator[Secret]:
    """Yield every place of the secrets in a text, in any casing. A plain word is searched nowhere: sentences use it, too."""
    searched = {
        secret.lower(): kind for secret, kind in kinds.items() if len(secret) >= _SHORTEST_REPEATED and not _is_plain_word(secret)
    }
    lengths: defaultdict[str, set[int]] = defaultdict(set)
    for secret in searched:
        lengths[secret[:_SHORTEST_REPEATED]].add(len(secret))
    lowered = text.lower() if len(text.lower()) == len(text) else text
    for start in range(len(text) - _SHORTEST_REPEATED + 1) if searched else ():
        for length in lengths.get(lowered[start : start + _SHORTEST_REPEATED], ()):
            end = start + length
            kind = searched.get(lowered[start:end])
            if kind and not _is_inside_word(text, start) and not _is_inside_word(text, end):
                yield Secret(start, end, kind)


def _is_plain_word(value: str) -> bool:
    return value.replace("_", "").isalpha() and (value[1:].islower() or value.isupper())


def _is_inside_word(text: str, place: int) -> bool:
    return text[place - 1 : place].isalnum() and text[place : place + 1].isalnum()


def _search_new(text: str) -> Iterator[Secret]:
    for run in _RUN.finditer(text):
        for match in _TOKEN.finditer(text, run.start(), run.end()):
            yield Secret(*match.span(), _KINDS[match.lastindex or 0])
        for match in _UNKNOWN_TOKEN.finditer(text, run.start(), run.end()):
            if _is_random(match["value"]):
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
    for clues, pattern, kind_of in _PATTERNS:
        groups = [name for name in ("value", "next") if name in pattern.groupindex]
        for match in pattern.finditer(text) if any(clue in lowered for clue in clues) else ():
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
    closing = _CLOSING.get(text[max(0, start - 1) : start])
    line = text[end : end + 60].partition("\n")[0]
    return end + len(line.partition(closing)[0].rstrip("\\")) if closing and closing in line else 0


def _is_marked(text: str, place: int) -> bool:
    """Return whether a position is inside a mark, whose kind does not name the text after it."""
    mark = _MARK.match(text, max(0, text.rfind("[", max(0, place - _LONGEST_MARK), place)))
    return mark is not None and place < mark.end()


def _kind_of_assigned(match: re.Match[str], value: str) -> str:
    is_moved = match["sign"].rpartition(" ")[2].lower() in ("to", "auf", "from", "von")
    if is_moved and not _SETS.search(match.string, max(0, match.start() - _NEAR), match.end() + _NEAR):
        return ""
    in_environment = (match["sign"] == "=" or "value" in match["sign"]) and match["name"].isupper()
    quoted, value = value, value.split(maxsplit=1)[0] if value else ""
    if match["password"] and match["layout"]:
        return "password" if _is_strong(value) else ""
    if match["weak"]:
        is_strong = _is_strong(value) or (in_environment and _digits(value) > 1 and _is_mixed(value))
        return "password" if is_strong else ""
    if match["password"]:
        is_password = _is_password(value, environment=in_environment) or _are_drawn(quoted)
        return "password" if is_password else ""
    name, value = match["name"].lower(), value.removeprefix("base64:")
    if name.startswith("signing") and _KEY_ID.fullmatch(value):
        return ""
    is_word = bool(match["signing"]) and in_environment and len(value) >= 8 and value.isalpha() and not _PLACEHOLDER.match(value)
    is_key = _is_key(value) or _is_short_key(value) or (bool(_UUID.fullmatch(value)) and name != "token")
    return _key_kind(name) if is_key or is_word else ""


def _kind_of_phrase(match: re.Match[str], value: str) -> str:
    """Accept words that look randomly drawn: lower case, without function words.

    If quoted directly after the name they may be a sentence, and with a number in it in any casing.
    """
    drawn = re.split(r"[ -]", value)
    is_beside = bool(match["quote"]) and not match["between"].strip()
    is_marked = bool(match["quote"]) or " " not in value
    if (match["clause"] and not is_marked) or _ABOUT.search(match["between"]) or _DEMAND.search(value):
        return ""
    if not (is_beside if any(map(str.isdecimal, drawn)) else value.islower()):
        return ""
    small = sum(word in function_words("en") | function_words("de") for word in drawn)
    most_small = 1 if is_beside or (is_marked and match["sign"]) else 0
    return "password" if len(drawn) >= (3 if is_marked else 4) and small <= most_small else ""


def _kind_of_bare(match: re.Match[str], value: str) -> str:
    """Accept a value without a sign before it only if no ordinary word looks like it."""
    if not match["password"]:
        return _key_kind(match["name"]) if len(value) >= 32 and _is_key(value) and _is_random(value) else ""
    kinds = sum(map(bool, (_digits(value), _marks_in(value), not (value.islower() or value.isupper()))))
    is_strange = kinds >= 2 if match["quote"] else _digits(value) and _marks_in(value)
    return "password" if len(value) >= 8 and is_strange and _is_password(value) else ""


def _key_kind(name: str) -> str:
    name = re.sub(r"[ _-]+", " ", name.lower())
    if name.endswith("schlüssel"):
        return "api key" if name.startswith("api") else "key"
    return "api key" if name.replace(" ", "") == "apikey" else name.removesuffix("s")


def _is_password(value: str, *, environment: bool = False) -> bool:
    """Return whether a value named as a password is one; in an `environment`'s `NAME=value`, a plain word is too."""
    if len(value) < 6 or _PLACEHOLDER.match(value) or "://" in value or _is_code(value):
        return False
    if environment:
        return not re.fullmatch(r"/[\w./-]+", value) or _is_random(value)
    if value.isdecimal():
        return True
    letters = any(char.isalpha() for char in value)
    strange = _digits(value) or _marks_in(value.rstrip("!?"))  # punctuation of the sentence
    return letters and bool(strange) and not _is_path(value)


def _is_code(value: str) -> bool:
    """Return whether a value is a name, a call or hyphenated words. A random one whose bracket stays open is not."""
    return bool(_CODE.fullmatch(value)) and (value[-1] in ")]" or not _is_random(value))


def _is_path(value: str) -> bool:
    """Return whether a value is a path of words and numbers."""
    return "/" in value and all(_NAME_IN_PATH.fullmatch(part) for part in re.split(r"[/.:~-]", value))


def _are_drawn(value: str) -> bool:
    """Return whether several quoted words look randomly drawn: two have digits and both cases, and none is of a sentence."""
    drawn = value.split()
    strange = sum(bool(_digits(word)) and not (word.islower() or word.isupper()) for word in drawn)
    return strange >= 2 and not any(word.lower() in function_words("en") | function_words("de") for word in drawn)


def _marks_in(value: str) -> int:
    return sum(char in "!#$%^&*@+=~?" for char in value)


def _is_key(value: str) -> bool:
    """Return whether a value named as a key or token is one: long, and more random than any name."""
    if len(value) < 16 or _PLACEHOLDER.match(value) or "://" in value or _UUID.fullmatch(value) or _is_path(value):
        return False
    longest = max(re.split(r"[^A-Za-z0-9]+", value), key=len)
    return _is_random(value) or (len(longest) >= 16 and _digits(longest) >= 2 and _entropy_bits(longest) >= 3.0)


def _is_short_key(value: str) -> bool:
    """Return whether letters and digits alternate and every part has a digit: "7d9f-33kk-aa02"."""
    parts = re.split(r"[-_.]", value)
    return (
        len(value) >= 10
        and not _PLACEHOLDER.match(value)
        and all(map(_digits, parts))
        and len(re.findall(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])", value)) >= 3
    )


def _is_basic(value: str) -> bool:
    try:
        return b":" in base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False


def _is_random(value: str) -> bool:
    """Return whether a value mixes both cases and digits as no name does, or is long, with many digits, and not a hex digest."""
    letters, large = sum(char.isalpha() for char in value), sum(char.isupper() for char in value)
    if _entropy_bits(value) < 3.5:
        return False
    if 0.2 * letters <= large <= 0.8 * letters:
        return _digits(value) >= 2 or len(value) >= 24
    return _digits(value) * 8 >= len(value) >= 32 and not _HEX.fullmatch(value)


def _digits(value: str) -> int:
    return sum(char.isdecimal() for char in value)


def _entropy_bits(value: str) -> float:
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)


def _is_list_of_codes(value: str) -> bool:
    """Return whether every hyphenated code of a list has a digit and parts of equal length."""
    codes = re.findall(r"\w+(?:-\w+)+", value)
    return all(_digits(code) and len(set(map(len, code.split("-")))) == 1 for code in codes) and _digits(value) >= 2


def _is_mixed(value: str) -> bool:
    """Return whether a password has special characters or mixed case, which few names have."""
    return _is_password(value) and bool(_marks_in(value) or not (value.islower() or value.isupper() or value.isdecimal()))


def _is_strong(value: str) -> bool:
    """Return whether a password has letters, digits and special characters, which no ordinary text does."""
    return len(value) >= 8 and _is_password(value) and bool(_digits(value)) and bool(re.search(r"[!#$%^&*?](?!\Z)", value))


def _kind_of_user(_: re.Match[str], value: str) -> str:
    """Accept a random user of an address, which is a token."""
    is_token = _digits(value) >= 4 and (_is_random(value) or (len(value) == 40 and bool(_HEX.fullmatch(value))))
    return "token" if is_token else ""


def _kind_of_pair(match: re.Match[str], value: str) -> str:
    is_account = value.isdecimal() and "account" in match[0].lower()
    return "password" if _is_password(value) and not is_account else ""


_CLUES = ("pass", "pw", "psk", "kennwort", "secret", "token", "key", "auth", "credential", "schlüssel")
_PATTERNS: tuple[tuple[tuple[str, ...], re.Pattern[str], Callable[[re.Match[str], str], str]], ...] = (
    (_CLUES, _CALLED, _kind_of_assigned),
    (("phrase", "mnemonic", "passwor", "kennwort"), _PHRASE, _kind_of_phrase),
    (("seed", "recovery", "mnemonic"), _SEED, lambda *_: "password"),
    (_CLUES, _BARE, _kind_of_bare),
    (("pin",), _PIN, lambda *_: "pin"),
    (
        ("bearer", "basic", "authorization"),
        _HEADER,
        lambda _, value: "authorization" if _is_basic(value) or _is_key(value) else "",
    ),
    (("://",), _IN_ADDRESS, lambda _, value: "" if _PLACEHOLDER.match(value) or _is_path(value) else "password"),
    (("://",), _USER_OF_ADDRESS, _kind_of_user),
    (("sig=",), _SIGNATURE, lambda _, value: "signature" if _is_random(value) else ""),
    (("</",), _ELEMENT, lambda _, value: "password" if _is_password(value) else ""),
    (("machine",), _NETRC, lambda _, value: "password" if _is_password(value) else ""),
    (
        ("mysql", "mariadb", "sshpass", "curl", "login"),
        _ON_COMMAND_LINE,
        lambda _, value: "password" if _is_password(value) else "",
    ),
    (("psql",), _PSQL, lambda _, value: "password" if _is_mixed(value) else ""),
    (("pw", "passwor"), _SHORT_NAME, lambda _, value: "password" if _is_mixed(value) and _digits(value) >= 2 else ""),
    (("passwor", "passphrase", "kennwort"), _NUMBERED, lambda *_: "password"),
    (("otp", "2fa", "mfa", "authenticator"), _ONE_TIME, lambda _, value: "totp secret" if _digits(value) else ""),
    (("code",), _RECOVERY, lambda _, value: "recovery code" if _is_list_of_codes(value) else ""),
    (("login", "cred", "daten"), _LOGIN, lambda _, value: "password" if _is_mixed(value) else ""),
    (("login", "cred", "account", "zugang", "daten"), _PAIR, _kind_of_pair),
)
"""Lower-case strings, one of which every matching text contains; the pattern; and a function to the kind of a match, empty for none."""


def _merge_overlaps(found: list[Secret]) -> list[Secret]:
    """Merge overlapping secrets; the merged one has the kind of the first, or of the longest where several begin."""
    kept: list[Secret] = []
    for secret in sorted(found, key=lambda each: (each.start, -each.end)):
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
        elif secret.end > kept[-1].end:
            kept[-1] = Secret(kept[-1].start, secret.end, kept[-1].kind)
    return kept
