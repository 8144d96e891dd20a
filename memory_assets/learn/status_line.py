"""One line for an assistant's status line: how much is remembered, and what waits to be curated."""

from typing import TYPE_CHECKING

from memory_assets.learn.brief import read_brief
from memory_assets.learn.waiting import count_waiting

if TYPE_CHECKING:
    from memory_assets.places import Places


def status_line(places: "Places") -> str:
    """Such as "1,204 memories, 7 un-ingested memories across 3 silos"."""
    brief = read_brief(places.folder)
    parts = [f"{brief.memories:,} memor{'y' if brief.memories == 1 else 'ies'}" if brief else "no memories yet"]
    if places.is_sources_tenant and (waiting := count_waiting(places.claude_projects_dir, places.folder)).memories:
        parts.append(str(waiting))
    return ", ".join(parts)
