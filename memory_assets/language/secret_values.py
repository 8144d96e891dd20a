"""Judgement of a value by its characters alone: whether it looks like a password, a key, or something else."""

import base64
import binascii
import math
import re
from collections import Counter

from memory_assets.language.words import function_words

PLACEHOLDER = re.compile(
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
KEY_ID = re.compile(r"(?:0x)?(?:[0-9A-F]{8}|[0-9A-F]{16}|[0-9A-F]{40})")
"""A PGP key's id or fingerprint."""
_NAME_IN_PATH = re.compile(r"(?:[a-z]?[A-Z]{0,5}[^\W\dA-Z]*|[A-Z_]*)\d*")
HEX = re.compile(r"[0-9a-fA-F]+")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def is_password(value: str, *, environment: bool = False) -> bool:
    """Return whether a value named as a password is one; in an `environment`'s `NAME=value`, a plain word is too."""
    if len(value) < 6 or PLACEHOLDER.match(value) or "://" in value or _is_code(value):
        return False
    if environment:
        return not re.fullmatch(r"/[\w./-]+", value) or is_random(value)
    if value.isdecimal():
        return True
    letters = any(char.isalpha() for char in value)
    strange = digits(value) or marks_in(value.rstrip("!?"))  # punctuation of the sentence
    return letters and bool(strange) and not is_path(value)


def _is_code(value: str) -> bool:
    """Return whether a value is a name, a call or hyphenated words. A random one whose bracket stays open is not."""
    return bool(_CODE.fullmatch(value)) and (value[-1] in ")]" or not is_random(value))


def is_path(value: str) -> bool:
    """Return whether a value is a path of words and numbers."""
    return "/" in value and all(_NAME_IN_PATH.fullmatch(part) for part in re.split(r"[/.:~-]", value))


def are_drawn(value: str) -> bool:
    """Return whether several quoted words look randomly drawn: two have digits and both cases, and none is of a sentence."""
    drawn = value.split()
    strange = sum(bool(digits(word)) and not (word.islower() or word.isupper()) for word in drawn)
    return strange >= 2 and not any(word.lower() in function_words("en") | function_words("de") for word in drawn)


def marks_in(value: str) -> int:
    """Return the number of special characters."""
    return sum(char in "!#$%^&*@+=~?" for char in value)


def is_key(value: str) -> bool:
    """Return whether a value named as a key or token is one: long, and more random than any name."""
    if len(value) < 16 or PLACEHOLDER.match(value) or "://" in value or UUID.fullmatch(value) or is_path(value):
        return False
    longest = max(re.split(r"[^A-Za-z0-9]+", value), key=len)
    return is_random(value) or (len(longest) >= 16 and digits(longest) >= 2 and _entropy_bits(longest) >= 3.0)


def is_short_key(value: str) -> bool:
    """Return whether letters and digits alternate and every part has a digit: "7d9f-33kk-aa02"."""
    parts = re.split(r"[-_.]", value)
    return (
        len(value) >= 10
        and not PLACEHOLDER.match(value)
        and all(map(digits, parts))
        and len(re.findall(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])", value)) >= 3
    )


def is_basic(value: str) -> bool:
    """Return whether a value is a user and a password as HTTP's basic authorization encodes them."""
    try:
        return b":" in base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False


def is_random(value: str) -> bool:
    """Return whether a value mixes both cases and digits as no name does, or is long, with many digits, and not a hex digest."""
    letters, large = sum(char.isalpha() for char in value), sum(char.isupper() for char in value)
    if _entropy_bits(value) < 3.5:
        return False
    if 0.2 * letters <= large <= 0.8 * letters:
        return digits(value) >= 2 or len(value) >= 24
    return digits(value) * 8 >= len(value) >= 32 and not HEX.fullmatch(value)


def digits(value: str) -> int:
    """Return the number of decimal digits."""
    return sum(char.isdecimal() for char in value)


def _entropy_bits(value: str) -> float:
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)


def is_list_of_codes(value: str) -> bool:
    """Return whether every hyphenated code of a list has a digit and parts of equal length."""
    codes = re.findall(r"\w+(?:-\w+)+", value)
    return all(digits(code) and len(set(map(len, code.split("-")))) == 1 for code in codes) and digits(value) >= 2


def is_mixed(value: str) -> bool:
    """Return whether a password has special characters or mixed case, which few names have."""
    return is_password(value) and bool(marks_in(value) or not (value.islower() or value.isupper() or value.isdecimal()))


def is_strong(value: str) -> bool:
    """Return whether a password has letters, digits and special characters, which no ordinary text does."""
    return len(value) >= 8 and is_password(value) and bool(digits(value)) and bool(re.search(r"[!#$%^&*?](?!\Z)", value))
