"""Keeps keys and passwords out of the stores: masks, refuses or allows them, according to the settings."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from memory_assets.errors import InvalidInputError
from memory_assets.language.secrets import KnownSecrets, find_secrets, mask, repeatable, secrets_in
from memory_assets.models import FileScan, FileStamp, Memory, NewMemory, Refusal, Scan, SecretPolicy, SourceItem

Record = TypeVar("Record", Memory, NewMemory, SourceItem)

_TEXTS = (
    "content",
    "title",
    "description",
    "body",
    "tags",
    "links",
    "project",
    "session",
    "author",
    "external_id",
    "source_key",
    "metadata",
)
"""Fields that hold user-written text; a record has some of them."""
_NAMED, _NAMES = ("content", "body"), ("title", "description")
"""Texts that are shown beside the record's names, which may say that a text is a password."""
_HEAD = 400
"""Characters of a text that a name may be about."""
_MEND = "take it out, or set MEMORY_SECRETS to mask"
_RENAME = "rename it, and change the secret where it is used"


def without_secrets(record: Record, known: Mapping[str, str] | None = None) -> Record:
    """Mask every secret in a record's texts, also the `known` ones of other records; returns the same object if there is none."""
    known = KnownSecrets.of(known)
    found = secrets_of(record, known)
    if not found:
        return record
    if fresh := {secret: kind for kind, secret in found if not known.covers(secret)}:
        known = KnownSecrets(known | fresh)
    names = _names(record)
    masked = {field: _mask_field(value, names if field in _NAMED else [], known) for field, value in _texts(record).items()}
    return replace(record, **masked)


def _mask_field(value: Any, names: list[str], known: Mapping[str, str]) -> Any:
    value = mask_value(value, known=known)
    for name in names:
        value = mask(value[:_HEAD], name) + value[_HEAD:]
    return value


def _names(record: Memory | NewMemory | SourceItem) -> list[str]:
    """Return the names that are shown before a record's text, written as words."""
    found = (getattr(record, field, "") for field in _NAMES)
    return [name.replace("-", " ").replace("_", " ") for name in found if name and "\n" not in name]


def known_secrets(records: Iterable[Memory | NewMemory | SourceItem]) -> KnownSecrets:
    """Map the secrets of records that belong together, such as those of one file, to their kinds."""
    return KnownSecrets({secret: kind for record in records for kind, secret in secrets_of(record)})


def secrets_of(record: Memory | NewMemory | SourceItem, known: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Return (kind, secret) of every secret in a record's texts, and of the `known` ones of other records."""
    texts = _texts(record)
    named = [(name, texts[field][:_HEAD]) for name in _names(record) for field in _NAMED if field in texts]
    found = [secret for text in texts.values() for secret in iter_secrets(text, known=known)]
    return list(dict.fromkeys([*found, *(secret for name, text in named for secret in iter_secrets(text, name))]))


def kinds_of(record: NewMemory | SourceItem, known: Mapping[str, str] | None = None) -> list[str]:
    """Return the kinds of the secrets in a record's texts, and of the `known` ones of other records."""
    return list(dict.fromkeys(kind for kind, _ in secrets_of(record, known)))


def refusal_of(record: NewMemory | SourceItem, known: Mapping[str, str] | None = None) -> str:
    """Return why a record with secrets is refused, naming their kinds; empty if it has none."""
    kinds = kinds_of(record, known)
    return f"it holds a secret ({', '.join(kinds)})" if kinds else ""


def guard_text(text: str, policy: SecretPolicy, what: str) -> str:
    """Apply the policy to a user's text outside memories, such as a tag; `what` names it in the error.

    Raise InvalidInputError if it holds a secret and the policy is to refuse.
    """
    kinds = dict.fromkeys(kind for kind, _ in iter_secrets(text))
    if policy is SecretPolicy.REFUSE and kinds:
        raise InvalidInputError(f"{what} holds a secret ({', '.join(kinds)}); {_MEND}.")
    return text if policy is SecretPolicy.ALLOW else mask(text)


def refuse_unsafe_names(scan: Scan, known: Mapping[str, FileStamp], policy: SecretPolicy) -> Scan:
    """Refuse the scanned files whose path below the root holds a secret, and report them under the masked path.

    Files with the same masked path are reported once, with the stamp of the first.
    """
    if policy is SecretPolicy.ALLOW:
        return scan
    stamps = {path: known[path] for path in scan.unchanged} | {file.path: file.stamp for file in scan.changed}
    masked: dict[str, FileScan] = {}
    unsafe: set[str] = set()
    for path in sorted(stamps):
        below = path.removeprefix(scan.root)
        shown = path.removesuffix(below) + masked_path(below)
        if shown == path:
            continue
        unsafe.add(path)
        kinds = ", ".join(dict.fromkeys(kind for part in below.split("/") for kind, _ in iter_secrets(part)))
        refusal = Refusal(scan.source, shown, f"its name holds a secret ({kinds})", _RENAME)
        masked.setdefault(shown, FileScan(shown, stamps[path], refusals=(refusal,)))
    if not unsafe:
        return scan
    reported = [path for path, file in masked.items() if known.get(path) == file.stamp]
    changed = [*(file for file in scan.changed if file.path not in unsafe), *(masked[path] for path in masked.keys() - reported)]
    return replace(
        scan,
        changed=tuple(sorted(changed, key=lambda file: file.path)),
        unchanged=tuple(sorted([*(path for path in scan.unchanged if path not in unsafe), *reported])),
    )


def masked_path(path: str) -> str:
    """Mask the secrets in the names of a path, each for itself."""
    return "/".join(map(_masked_part, path.split("/")))


_masked_part = lru_cache(1_000)(mask)
"""Cached because many paths share their folders."""


def guard_scan(scan: Scan, policy: SecretPolicy) -> Scan:
    """Apply the policy to what was read from a source; the source's files are not changed."""
    if policy is SecretPolicy.ALLOW:
        return scan
    return replace(scan, changed=tuple(_guard_file(file, policy) for file in scan.changed))


def _guard_file(file: FileScan, policy: SecretPolicy) -> FileScan:
    known = KnownSecrets(known_secrets(file.items) | secrets_in(hook.text for hook in file.hooks))
    refusals = tuple(replace(refusal, reason=mask(refusal.reason, known=known)) for refusal in file.refusals)
    hooks = tuple(replace(hook, target=masked_path(hook.target), text=mask(hook.text, known=known)) for hook in file.hooks)
    file = replace(file, refusals=refusals, hooks=hooks, projects=tuple(map(mask, file.projects)))
    if not known:
        return file
    if policy is SecretPolicy.MASK:
        return replace(file, items=tuple(without_secrets(item, known) for item in file.items))
    reasons = {item.key: refusal_of(item, known) for item in file.items}
    refused = (
        Refusal(item.source, file.path, reasons[item.key], _MEND, mask(item.title, known=known), item.key)
        for item in file.items
        if reasons[item.key]
    )
    return replace(file, items=tuple(item for item in file.items if not reasons[item.key]), refusals=(*refusals, *refused))


def mask_value(value: Any, name: str = "", known: Mapping[str, str] | None = None) -> Any:
    """Mask the secrets in a JSON value; `name` is its key in the surrounding object, `known` maps further secrets to their kinds."""
    if isinstance(value, str):
        return mask(value, name, known)
    if isinstance(value, dict):
        return {mask(key, known=known): mask_value(each, key, known) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(mask_value(each, name, known) for each in value)
    return value


def iter_secrets(value: Any, name: str = "", known: Mapping[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of each secret that `mask_value` would mask; the text is the one that other texts may repeat."""
    if isinstance(value, str):
        for secret in find_secrets(value, name, known):
            yield secret.kind, repeatable(value, secret)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from iter_secrets(key, known=known)
            yield from iter_secrets(each, key, known)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from iter_secrets(each, name, known)


def _texts(record: Memory | NewMemory | SourceItem) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _TEXTS if hasattr(record, name)}
