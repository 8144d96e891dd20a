import os
import signal
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest

from memory_assets.stores.files import replace_file, replacing


def test_a_file_is_replaced_as_a_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "index.md"
    replace_file(path, "old")
    replace_file(path, "new ü")
    assert path.read_text(encoding="utf-8") == "new ü"
    assert [each.name for each in path.parent.iterdir()] == ["index.md"]


def test_permissions_of_the_old_file_are_kept_and_new_files_are_private(tmp_path: Path) -> None:
    path = tmp_path / "seed.json"
    replace_file(path, b"{}")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    replace_file(path, b"{ }")
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_write_that_fails_leaves_the_old_file_and_no_temp_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "seed.json"
    replace_file(path, "old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["seed.json"]


def test_a_kill_between_writing_and_renaming_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "seed.json"
    replace_file(path, "old")
    code = (
        "import os, signal, sys; from pathlib import Path; from memory_assets.stores import files\n"
        "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.replace_file(Path(sys.argv[1]), 'new')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"


def _die_while_replacing(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"half")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_writer_leaves_no_file_once_another_has_written(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "kept"
    path.parent.mkdir()
    process = get_context("spawn").Process(target=_die_while_replacing, args=(path,))
    process.start()
    process.join()
    assert len(list(path.parent.iterdir())) == 1
    with replacing(path) as first:
        first.write(b"one")
        replace_file(path, "other")
    assert [each.read_bytes() for each in path.parent.iterdir()] == [b"one"]
