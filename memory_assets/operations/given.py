"""What a user gives, as the stores know it: a memory by its id, filters as they were typed."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from memory_assets.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from memory_assets.models import Memory
    from memory_assets.stores.filters import Filters
    from memory_assets.tenants import Tenant


def find_memory(tenant: "Tenant", reference: str | int) -> "Memory":
    """The memory of an id, or, where `reference` is text, of the first digits of one.

    Raises:
        NotFoundError: there is none.
        InvalidInputError: the text is no digits, or the beginning of several ids.
        StoreError: the store cannot be read.
    """
    if isinstance(reference, str) and not re.fullmatch("[0-9]{1,16}", reference):
        raise InvalidInputError(f"{reference!r} is not a memory's id; give its digits as `memory recent` prints them.")
    if tenant.exists:
        if isinstance(reference, str):
            return tenant.memories.resolve(reference)
        for memory in tenant.memories.get([reference]):
            return memory
    raise NotFoundError(f"There is no memory {reference}; `memory recent` lists the newest.")


def as_stored(filters: "Filters") -> "Filters":
    """`filters` with tags as the store writes them."""
    from memory_assets.language.tags import normalise_tag

    return replace(filters, tags=[normalise_tag(tag) for tag in filters.tags]) if filters.tags else filters
