"""Entities recognisable by spelling: addresses, paths, environment variables, @mentions, #tags."""

import re
from collections.abc import Iterator

from memory_assets.language.english import word_set
from memory_assets.language.entity_types import EntityType, Mention

_EXTENSIONS = sorted(word_set("spelling.extensions"), key=lambda extension: (-len(extension), extension))
_BARE_NAMES = sorted(word_set("spelling.bare_names"), key=lambda name: (-len(name), name))

_URL = (
    r"(?P<URL>\b(?:https?|ftp|ssh|git|s3|gs|postgres(?:ql)?|redis|mongodb|mysql|sqlite|file|amqps?|wss?)://"
    r"(?:\([^\s<>\"'`()]*\)|[^\s<>\"'`\])}])+)"
)
_EMAIL = r"(?P<EMAIL>(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[^\W\d_][\w-]+)"
_SEGMENT = r"[\w.@+\-*]+"
_PATH = (
    r"(?P<PATH>(?<![\w./\\@:~$<-])(?:"
    rf"(?P<anchor>~|\.{{1,2}}|[A-Za-z]:|\$\{{?[A-Z_]+\}}?)?[/\\](?:{_SEGMENT}[/\\])*{_SEGMENT}[/\\]?"
    rf"|{_SEGMENT}(?:[/\\]{_SEGMENT})+[/\\]?"
    rf"|{_SEGMENT}/(?![\w/])))"
)
_FILE = (
    rf"(?P<FILE>(?<![\w./\\@~$-])(?:{'|'.join(re.escape(name) for name in _BARE_NAMES)}"
    rf"|[\w\-.]*[\w\-]\.(?:{'|'.join(_EXTENSIONS)}))(?![\w/\\-]|\.\w|\())"
)
_ENV_VAR = (
    r"(?P<ENV_VAR>\$\{?(?P<dollar>[A-Z][A-Z0-9_]+)\b\}?"
    r"|(?<![\w./$-])(?P<shout>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?![\w(/-]|\.\w))"
)
_HANDLE = r"(?P<PERSON>(?<![\w.@/`])@(?P<handle>[A-Za-z][\w-]{1,38})(?![\w/(=]|\.\w))"
_HASHTAG = r"(?P<TAG>(?<![\w#&/.`])\#(?P<tag>[^\W\d_][\w-]*(?:/[\w-]+)*))"

_SURFACE = re.compile(rf"{_URL}|{_EMAIL}|{_ENV_VAR}|{_FILE}|{_PATH}|{_HANDLE}|{_HASHTAG}")
_HAS_EXTENSION = re.compile(rf"\.(?:{'|'.join(_EXTENSIONS)})$")
_ENV_SUFFIX = re.compile(
    r"_(?:URL|URI|KEY|TOKEN|SECRET|PASSWORD|DIR|PATH|HOME|HOST|PORT|DSN|ENV|USER|REGION|LEVEL|FORMAT|TIMEZONE|ID|BUCKET|PROXY)$"
)
_ENV_CONTEXT = re.compile(r"\b(?:env|environment|export(?:ed|s)?|unset|variables?|\.env)\b", re.IGNORECASE)
_COLOUR = re.compile(r"(?=.*\d)(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})|([0-9a-f])\1{2}|([0-9a-f])\2{5}", re.IGNORECASE)


def find_surface(text: str) -> Iterator[Mention]:
    """Yield the entities in `text`, left to right, without overlaps and sigils: "@alice" gives alice, "$HOME" gives HOME."""
    for match in _SURFACE.finditer(text):
        start, found = match.start(), match.group()
        if match["URL"] or match["EMAIL"]:
            kind = EntityType.URL if match["URL"] else EntityType.EMAIL
            name = found.rstrip(".,;:!?'*")
        elif match["FILE"]:
            kind, name = EntityType.FILE, found
            if found.lower() in word_set("spelling.not_files"):
                continue
        elif match["PATH"]:
            kind, name = EntityType.FILE, found.rstrip(".,;:!?*")
            if not _is_path(name, anchored=match["anchor"] is not None):
                continue
        elif match["ENV_VAR"]:
            kind, name = EntityType.ENV_VAR, match["dollar"] or match["shout"]
            is_assigned = text.startswith("=", match.end())
            # Otherwise an upper-case name is a constant in code.
            if match["shout"] and not (is_assigned or _ENV_SUFFIX.search(name) or _ENV_CONTEXT.search(text)):
                continue
        elif match["PERSON"]:
            kind, name = EntityType.PERSON, match["handle"]
            if name in word_set("spelling.decorators"):
                continue
        else:
            kind, name = EntityType.TAG, match["tag"]
            if name in word_set("spelling.directives") or _COLOUR.fullmatch(name):
                continue
        end = start + len(name) if found.startswith(name) else match.end()
        yield Mention(start, end, name, kind)


def _is_path(path: str, *, anchored: bool) -> bool:
    """Return whether slashes separate folders, not alternatives ("and/or") or parts of a route."""
    segments = [segment for segment in re.split(r"[/\\]", path) if segment]
    if anchored:
        return True
    if not segments:
        return False
    if path.startswith("/"):
        return len(segments) > 1 and (segments[0] in word_set("spelling.roots") or bool(_HAS_EXTENSION.search(path)))
    if segments[0] in word_set("spelling.folders"):
        return True
    if path.endswith("/") and path.islower():
        return True
    capitals = all(segment[0].isupper() for segment in segments)
    return bool(_HAS_EXTENSION.search(path)) and not capitals
