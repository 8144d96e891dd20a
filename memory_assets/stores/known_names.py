"""The names that the graph knows, for the analyzer: projects and people, so that they are found in any casing.

They are kept in a small file beside the catalog, which the graph replaces when they change; reading it opens no store. They take
part in the analysis of texts that are new or changed. Texts that are analysed already are not analysed again for their sake: an
analyzer's name does not depend on them, so a new name never starts the whole store over.
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
    """Write the names down if they changed.

    Returns:
        Whether they did.
    """
    if names == read_known_names(folder):
        return False
    replace_file(folder / _FILE_NAME, json.dumps(names, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    return True
