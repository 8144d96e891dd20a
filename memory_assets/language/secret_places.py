"""Where passwords and keys stand in a text: after their name, in addresses, on command lines, in lists of codes."""

import re
from collections.abc import Callable

from memory_assets.language.secret_values import (
    HEX,
    KEY_ID,
    PLACEHOLDER,
    UUID,
    are_drawn,
    digits,
    is_basic,
    is_key,
    is_list_of_codes,
    is_mixed,
    is_password,
    is_path,
    is_random,
    is_short_key,
    is_strong,
    marks_in,
)
from memory_assets.language.words import function_words

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
CLOSING = dict(zip("\"'`“„‘‚«»", "\"'`”“’‘»«", strict=True))
"""Opening quote -> the closing one."""
_VALUE = (
    rf"(?:[^\s{_QUOTES}<>\\]|(?<=[\w!#$%*?@;^&~])(?:[\"'`](?=[\w!#$%*?@^&~])|[<>](?=[\w!#$%*?@^&~])(?![A-Za-z][\w-]{{0,20}}/?>)"
    rf"|\\(?![\s{_QUOTES}\\nrtu]))){{6,400}}"
)
"""A value up to the next white space; a quote, bracket or backslash belongs to it between two of its characters, unless a tag begins."""
_QUOTED = r"(?<=\\[\"'])[^\s\"'\\](?:[^\"'\\\n]{4,200})[^\s\"'\\](?=\\{1,3}[\"'])|" + "|".join(
    rf"(?<=(?<!\\){opening})(?=\S)(?:[^{closing}\\\n]|\\.){{6,200}}(?<!\s)(?={closing})" for opening, closing in CLOSING.items()
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
_LAYOUT = (
    r"[ \t]?\([^\n()]{1,30}\)[*_]{0,2}[ \t]?[:=][ \t] | [ \t]\([^\n()=:]{1,30}[ \t]=[ \t] | [ \t]{0,20}[|—–][ \t]"
    r" | [ \t]?:[*_]{0,2}\s{1,9}[-*+][ \t]"
)
"""Signs of the next cell of a table, a dash, a list below the name, or a remark in brackets, also one that ends with the value."""
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
    r"(?i)\b(?P<what>log[ -]?ins?|cred(?:ential)?s|account|user(?:name)?|benutzer(?:name)?|zugang(?:sdaten)?|(?:anmelde|login)daten)\b"
    rf"(?:(?P<sign>[^\n:/]{{0,40}}?(?::[*_]{{0,3}}|{_IS}|\bare\b)[ \t]|[*_]{{0,3}}(?:[ \t]as)?[ \t(])[ \t(]{{0,3}})"
    rf"[{_QUOTES}]?[\w.@+-]{{2,60}}[{_QUOTES}]?(?P<parting>[ \t]{{0,2}}/[ \t]{{0,2}}|:|,?[ \t](?:(?:with|mit|and|und)[ \t])?pass[ \t])"
    rf"[{_QUOTES}]?(?P<value>[^\s{_QUOTES}/:]{{6,64}})"
)
"""A user and a password with a sign between them, behind a word for both. Without a colon or verb, only a strong one is meant."""
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
_ABOUT = re.compile(r"(?i)error|message|prompt|field|label|hint|rule|polic|fehler|meldung|hinweis|feld")
"""What is between a password's name and a sentence about it."""
_DEMAND = re.compile(r"(?i)\b(?:least|must|characters|digits|mindestens|zeichen|ziffern|passwor[dt])\b")
"""What is in a sentence that says which passwords are allowed, and in no passphrase."""


def _kind_of_assigned(match: re.Match[str], value: str) -> str:
    is_moved = match["sign"].rpartition(" ")[2].lower() in ("to", "auf", "from", "von")
    if is_moved and not _SETS.search(match.string, max(0, match.start() - _NEAR), match.end() + _NEAR):
        return ""
    in_environment = (match["sign"] == "=" or "value" in match["sign"]) and match["name"].isupper()
    quoted, value = value, value.split(maxsplit=1)[0] if value else ""
    if match["password"] and match["layout"]:
        return "password" if is_strong(value) else ""
    if match["weak"]:
        return "password" if is_strong(value) or (in_environment and digits(value) > 1 and is_mixed(value)) else ""
    if match["password"]:
        return "password" if is_password(value, environment=in_environment) or are_drawn(quoted) else ""
    name, value = match["name"].lower(), value.removeprefix("base64:")
    if name.startswith("signing") and KEY_ID.fullmatch(value):
        return ""
    is_word = bool(match["signing"]) and in_environment and len(value) >= 8 and value.isalpha() and not PLACEHOLDER.match(value)
    is_secret = is_key(value) or is_short_key(value) or (bool(UUID.fullmatch(value)) and name != "token") or is_word
    return _key_kind(name) if is_secret else ""


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
        return _key_kind(match["name"]) if len(value) >= 32 and is_key(value) and is_random(value) else ""
    kinds = sum(map(bool, (digits(value), marks_in(value), not (value.islower() or value.isupper()))))
    is_strange = kinds >= 2 if match["quote"] else digits(value) and marks_in(value)
    return "password" if len(value) >= 8 and is_strange and is_password(value) else ""


def _key_kind(name: str) -> str:
    name = re.sub(r"[ _-]+", " ", name.lower())
    if name.endswith("schlüssel"):
        return "api key" if name.startswith("api") else "key"
    return "api key" if name.replace(" ", "") == "apikey" else name.removesuffix("s")


def _kind_of_user(_: re.Match[str], value: str) -> str:
    """Accept a random user of an address, which is a token."""
    is_token = digits(value) >= 4 and (is_random(value) or (len(value) == 40 and bool(HEX.fullmatch(value))))
    return "token" if is_token else ""


def _kind_of_pair(match: re.Match[str], value: str) -> str:
    what, sign, parting = match["what"].lower(), match["sign"].strip("*_ \t(").lower(), match["parting"].strip()
    is_weak = sign in ("", "as") or parting not in ("/", ":") or what.startswith(("user", "benutzer"))
    if is_weak or (parting == ":" and what in ("account", "zugang")):
        return "password" if is_strong(value) else ""
    if parting == ":":
        return "password" if is_mixed(value) else ""
    return "password" if is_password(value) and not (value.isdecimal() and what == "account") else ""


_CLUES = ("pass", "pw", "psk", "kennwort", "secret", "token", "key", "auth", "credential", "schlüssel")
PATTERNS: tuple[tuple[tuple[str, ...], re.Pattern[str], Callable[[re.Match[str], str], str]], ...] = (
    (_CLUES, _CALLED, _kind_of_assigned),
    (("phrase", "mnemonic", "passwor", "kennwort"), _PHRASE, _kind_of_phrase),
    (("seed", "recovery", "mnemonic"), _SEED, lambda *_: "password"),
    (_CLUES, _BARE, _kind_of_bare),
    (("pin",), _PIN, lambda *_: "pin"),
    (
        ("bearer", "basic", "authorization"),
        _HEADER,
        lambda _, value: "authorization" if is_basic(value) or is_key(value) else "",
    ),
    (("://",), _IN_ADDRESS, lambda _, value: "" if PLACEHOLDER.match(value) or is_path(value) else "password"),
    (("://",), _USER_OF_ADDRESS, _kind_of_user),
    (("sig=",), _SIGNATURE, lambda _, value: "signature" if is_random(value) else ""),
    (("</",), _ELEMENT, lambda _, value: "password" if is_password(value) else ""),
    (("machine",), _NETRC, lambda _, value: "password" if is_password(value) else ""),
    (
        ("mysql", "mariadb", "sshpass", "curl", "login"),
        _ON_COMMAND_LINE,
        lambda _, value: "password" if is_password(value) else "",
    ),
    (("psql",), _PSQL, lambda _, value: "password" if is_mixed(value) else ""),
    (("pw", "passwor"), _SHORT_NAME, lambda _, value: "password" if is_mixed(value) and digits(value) >= 2 else ""),
    (("passwor", "passphrase", "kennwort"), _NUMBERED, lambda *_: "password"),
    (("otp", "2fa", "mfa", "authenticator"), _ONE_TIME, lambda _, value: "totp secret" if digits(value) else ""),
    (("code",), _RECOVERY, lambda _, value: "recovery code" if is_list_of_codes(value) else ""),
    (("login", "log in", "log-in", "cred", "account", "zugang", "daten", "user", "benutzer"), _PAIR, _kind_of_pair),
)
"""Lower-case strings, one of which every matching text contains; the pattern; and a function to the kind of a match, empty for none."""
