"""Keys and passwords stay out of what is kept: masked, refused or let through, as the settings say."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

from memory_assets.language.secrets import kinds_of, mask
from memory_assets.models import FileScan, NewMemory, Refusal, Scan, SecretPolicy, SourceItem

Record = TypeVar("Record", NewMemory, SourceItem)

_TEXTS = ("content", "title", "description", "body", "tags", "links", "project", "session", "author", "external_id", "metadata")
"""Fields that hold what somebody wrote, as far as a record has them."""
_MEND = "take it out, or set MEMORY_SECRETS to mask"


def without_secrets(record: Record) -> Record:
    """A record with every secret in its texts masked; the same object where it holds none."""
    texts = {name: getattr(record, name) for name in _TEXTS if hasattr(record, name)}
    masked = {name: _masked(value) for name, value in texts.items()}
    changed = {name: value for name, value in masked.items() if value != texts[name]}
    return replace(record, **changed) if changed else record


def refusal_of(record: Record) -> str:
    """Why a record is refused where secrets are: one sentence that names their kinds; empty where it holds none."""
    kinds = {kind: None for name in _TEXTS if hasattr(record, name) for kind in _kinds(getattr(record, name))}
    return f"it holds a secret ({', '.join(kinds)})" if kinds else ""


def guarded(scan: Scan, policy: SecretPolicy) -> Scan:
    """What was read from a source as it may be kept; the files themselves stay as they are."""
    if policy is SecretPolicy.ALLOW:
        return scan
    return replace(scan, changed=tuple(_guarded_file(file, policy) for file in scan.changed))


def _guarded_file(file: FileScan, policy: SecretPolicy) -> FileScan:
    refusals = tuple(replace(refusal, reason=mask(refusal.reason)) for refusal in file.refusals)
    file = replace(file, refusals=refusals, hooks=tuple(replace(hook, text=mask(hook.text)) for hook in file.hooks))
    if policy is SecretPolicy.MASK:
        return replace(file, items=tuple(map(without_secrets, file.items)))
    reasons = {item.key: refusal_of(item) for item in file.items}
    refused = (
        Refusal(item.source, file.path, reasons[item.key], _MEND, mask(item.title), item.key)
        for item in file.items
        if reasons[item.key]
    )
    return replace(file, items=tuple(item for item in file.items if not reasons[item.key]), refusals=(*refusals, *refused))


def _masked(value: Any, name: str = "") -> Any:
    """`value` with the strings in it masked; `name` is the key under which a mapping holds it."""
    if isinstance(value, str):
        return mask(value, name)
    if isinstance(value, dict):
        return {mask(key): _masked(each, key) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_masked(each, name) for each in value)
    return value


def _kinds(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, str):
        yield from kinds_of(value, name)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _kinds(each, key)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _kinds(each, name)
