"""The projects and people that the graph knows, for the analyzer, which finds them in any casing. Reading them opens no store.

A new name does not change the analyzer's name, so texts that are analysed already stay as they are.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from memory_assets.stores.files import replace_file

_FILE_NAME = "known_names.json"


def read_known_names(folder: Path) -> Mapping[str, str]:
    """Names -> their entity type, as a tenant's graph knew them when it was built last; none before."""
    try:
        names = json.loads((folder / _FILE_NAME).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return names if isinstance(names, dict) else {}


def write_known_names(folder: Path, names: Mapping[str, str]) -> bool:
    """Write the names down if they changed. Returns whether they did."""
    if names == read_known_names(folder):
        return False
    replace_file(folder / _FILE_NAME, json.dumps(names, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    return True
