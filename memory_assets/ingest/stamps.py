"""Stamps: short texts that differ when there is something to take in. Made of what `stat` says wherever that is enough."""

import json
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.models import Source
from memory_assets.sources.digests import stat_digests

if TYPE_CHECKING:
    from memory_assets.settings import Settings
    from memory_assets.tenants import Tenant


ABSENT = "absent"


def source_stamp(tenant: "Tenant", source: Source, path: Path) -> str:
    """The state of a source, as something that this tenant has to take in; `ABSENT` where there is nothing.

    It covers which store it is, too: a tenant that was created again or restored from a copy has taken in nothing yet.
    """
    digests = stat_digests(source, path)
    if not digests:
        return ABSENT
    store = _stat(Path(tenant.settings.tenant_vectors_uri(tenant.name)))
    return blake2b(json.dumps([digests, store], sort_keys=True).encode(), digest_size=16).hexdigest()


def disk_stamp(settings: "Settings", tenant: str) -> str | None:
    """A stamp that every commit changes, with compactions among them; None where the tables lie in object storage."""
    uri = settings.tenant_vectors_uri(tenant)
    if "://" in uri:
        return None
    return ".".join(_stat(Path(uri, table, "_versions")) for table in ("memories.lance", "relations.lance"))


def stored_stamp(tenant: "Tenant") -> str:
    """The state of memories and stated relations: how many, and when the last was written. Compacting leaves it as it is.

    Raises:
        StoreError: a table cannot be read.
    """
    memories, relations = tenant.memories, tenant.relations
    return f"{len(memories)}-{memories.last_updated()}.{len(relations)}-{relations.last_stated()}"


def _stat(path: Path) -> str:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    return f"{found.st_ino:x}-{found.st_ctime_ns:x}"
