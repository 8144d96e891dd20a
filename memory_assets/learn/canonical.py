"""The file of a curated memory, as PAI's homes hold it: flat frontmatter with provenance, then the text."""

import re
import unicodedata
from collections.abc import Container, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from memory_assets.learn.memory_files import MemoryFile
from memory_assets.models import Kind
from memory_assets.sources.dating import utc_seconds
from memory_assets.sources.files import decode
from memory_assets.sources.frontmatter import parse
from memory_assets.sources.markdown import GUESSED_DATE
from memory_assets.sources.pai_learning import HOMES

HOME_OF = {kind: home for home, kind in HOMES.items()}
"""The folder of each type."""
_LONGEST_NAME = 60
"""Characters of a name in its file's name."""
_ALWAYS_FIRST = ("name", "description", "type")
_OURS = ("source_cwd", "ingested_at", "original_path", "source_hash", "index_hook", "merged_from", "merged_hashes")
_DATES = ("modified", "created", "date")


def moved_file(entry: MemoryFile, ingested_at: datetime, merged: Sequence[MemoryFile] = ()) -> bytes:
    """Return the canonical file of a silo's memory: all it says, unknown fields too, and where it came from.

    `merged` are further files that it stands for.
    """
    fields, body = parse(decode(entry.data)[0])
    nested = fields.pop("metadata", {})
    if not isinstance(nested, dict):
        fields["metadata"], nested = nested, {}
    left = {key: value for key, value in nested.items() if key not in ("name", "description", "type", *_OURS)}
    fields |= {"metadata": left} if left else {}
    if not any(fields.get(name) or left.get(name) for name in _DATES):
        fields |= written_fields(entry)
    item = entry.item
    fields |= {"name": item.title, "description": item.description, "type": item.kind.value}
    return render(fields | provenance(entry, ingested_at, merged), body)


def written_fields(entry: MemoryFile) -> dict[str, str]:
    """Return the fields that say when a memory was written, and whether that is a guess."""
    guessed = {GUESSED_DATE: "true"} if "created_at" in entry.item.metadata.get("guessed", ()) else {}
    return {"created": utc_seconds(entry.written_at), **guessed}


def hash_of(entry: MemoryFile) -> str:
    """Return the digest of a file as a canonical file states it."""
    return f"sha256:{entry.digest}"


def provenance(entry: MemoryFile, ingested_at: datetime, merged: Sequence[MemoryFile] = ()) -> dict[str, Any]:
    """Return the fields that say where a canonical file came from, and what its silo's index said of it."""
    return {
        "source_cwd": entry.item.project,
        "ingested_at": utc_seconds(ingested_at),
        "original_path": str(entry.path),
        "source_hash": hash_of(entry),
        **({"merged_from": [str(each.path) for each in merged], "merged_hashes": list(map(hash_of, merged))} if merged else {}),
        **({"index_hook": list(entry.hooks)} if entry.hooks else {}),
    }


def with_fields(data: bytes, fields: Mapping[str, Any]) -> bytes:
    """Return a canonical file with some fields set anew, and all else that it says as it was."""
    there, body = parse(decode(data)[0])
    return render({**there, **fields}, body)


def render(fields: Mapping[str, Any], body: str) -> bytes:
    """Return a Markdown file: what `sources.frontmatter.parse` reads from it is `fields` and `body`."""
    import yaml

    first = [name for name in _ALWAYS_FIRST if name in fields]
    last = [name for name in _OURS if name in fields]
    ordered = {name: fields[name] for name in (*first, *(name for name in fields if name not in {*first, *last}), *last)}
    block = yaml.dump(
        ordered, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), allow_unicode=True, sort_keys=False, width=1 << 30
    )
    return f"---\n{block}---\n{body}".encode()


def file_name(kind: Kind, name: str, taken: Container[str]) -> str:
    """Return the name of the file that a memory gets in its home: `feedback_<short_slug>.md`, as PAI calls them.

    `taken` are the casefolded names of the files that lie there and are another memory's.
    """
    plain = unicodedata.normalize("NFKC", name).casefold()
    slug = re.sub(r"[\W_]+", "_", plain).strip("_").removeprefix(f"{kind.value}_")[:_LONGEST_NAME].strip("_")
    short = blake2b(name.encode(), digest_size=3).hexdigest()
    found = f"{kind.value}_{slug or short}.md"
    return found if found.casefold() not in taken else f"{kind.value}_{slug}_{short}.md"


def canonical_key(path: Path) -> str:
    """Return the key under which `memory run` knows a canonical file."""
    return f"pai_learning:{path.parent.name}/{path.name}"
