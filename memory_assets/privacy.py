"""What a process writes is for its owner alone."""

import os
from contextlib import suppress
from pathlib import Path


def keep_private() -> None:
    """Let this process make folders of mode 0700 and files of mode 0600, the libraries it uses too; for the start of a face."""
    os.umask(0o077)


def keep_temporary_files(data_dir: Path) -> None:
    """Let this process's libraries put their temporary files below the data folder, not where all users do.

    LanceDB sorts the words of memories there while it builds an index. Where `TMPDIR` is set, it stands; where the data folder
    cannot be written, nothing is indexed either.
    """
    if "TMPDIR" not in os.environ:
        folder = data_dir / "tmp"
        with suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            os.environ["TMPDIR"] = str(folder)
