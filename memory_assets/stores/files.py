"""Files that are replaced as a whole or not at all."""

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: str | bytes) -> None:
    """Put `content` in place of `path` in one step: temp file beside it, fsync, rename, fsync of the folder.

    A reader sees the old file or the new one; a kill leaves at most a temp file behind. The old file's permissions are kept;
    a new file can be read by its owner alone.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o7777)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
