"""Which canonical memory each silo memory became when it was curated, so that it lives on under the same id.

A small file beside the memories, which `memory learn` replaces; reading it opens no store.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from memory_assets.errors import DamagedError

_FILE = Path("learn", "moves.json")


def moves_file(folder: Path) -> Path:
    """Where a tenant keeps them."""
    return folder / _FILE


def read_moves(folder: Path) -> Mapping[str, str]:
    """Source key of a silo memory -> source key of the canonical one; none before anything was curated. DamagedError if unreadable."""
    path = moves_file(folder)
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        raise DamagedError(
            f"{path} cannot be read ({error}); the next `memory learn apply` writes it anew from its journal."
        ) from error
