"""What a sync is asked for, and what it did."""

from dataclasses import dataclass, field
from datetime import datetime

from memory_assets.tana.linking import Link


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """How a sync is to be done."""

    dry_run: bool = False
    force: bool = False
    """Send everything, also what did not change and what was trashed in Tana."""
    resync: bool = False
    """Make anew what is gone, in a workspace that is new or was reset."""
    take_out: bool = False
    """Take out of Tana however many left seed.json."""
    only: str = ""
    """Seed id of the one entry to sync; empty for all."""


@dataclass(slots=True)
class Outcome:
    """What became of one entry."""

    seed_id: str
    action: str
    """created, updated, trashed, archived, skipped or failed; create, update and so on where it is only planned."""
    node: str = ""
    links: list[Link] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Names in it that mean no node of Tana, or several."""
    error: str = ""


@dataclass(slots=True)
class Report:
    """What a sync did, or would do."""

    total: int = 0
    """Entries of seed.json that belong in Tana."""
    outcomes: list[Outcome] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    """Supertags and fields that were missing."""
    queued: dict[str, str] = field(default_factory=dict)
    """What waits for Tana."""
    away: str = ""
    """Why it waits."""
    held_back: list[str] = field(default_factory=list)
    """Entries that left seed.json, too many to be taken out of Tana unasked."""
    stale: list[str] = field(default_factory=list)
    """Mapped entries whose nodes are gone for good."""
    trashed_in_tana: list[str] = field(default_factory=list)
    moved: str = ""
    """The workspace that the mapping is of, where it is another one now."""
    names: dict[str, str] = field(default_factory=dict)
    """Seed id -> what the entry says, as its node is called."""
    unlinked: list[str] = field(default_factory=list)
    """Entries whose links could not all be looked up."""
    relinked: list[str] = field(default_factory=list)
    """Entries whose links an earlier sync could not look up, and this one did."""
    edited: dict[str, list[str]] = field(default_factory=dict)
    """Entry -> mirrored fields that were changed in Tana."""
    restores: bool = True
    """Whether such fields are restored."""
    refused: list[str] = field(default_factory=list)
    """What of seed.json cannot be read."""
    last_sync: datetime | None = None
    there: bool = True
    """Whether seed.json is."""
    unknown: str = ""
    """The one entry that was named, where seed.json and mapping have none of that id."""
