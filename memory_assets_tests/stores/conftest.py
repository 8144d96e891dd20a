"""Servers for stores that keep nothing on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_assets.settings import Settings, load_settings
from memory_assets_tests.services import NoServerError, ObjectStorage, PostgreSQL


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ObjectStorage, PostgreSQL]]:
    pytest.importorskip("psycopg_pool", reason="the extra [cluster] is not installed")
    pytest.importorskip("duckdb_extension_ducklake", reason="the extra [cluster] is not installed")
    folder = tmp_path_factory.mktemp("servers")
    try:
        with ObjectStorage(folder / "s3") as storage, PostgreSQL(folder / "postgres") as database:
            yield storage, database
    except NoServerError as reason:
        pytest.skip(str(reason))


@pytest.fixture
def elsewhere(servers: tuple[ObjectStorage, PostgreSQL], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    """Return settings that keep nothing of a tenant on this machine."""
    storage, database = servers
    name = f"t{abs(hash(tmp_path)) % 10**8}"
    database.create_database(name)
    monkeypatch.setenv("PGPASSWORD", database.PASSWORD)
    return load_settings(
        data_dir=tmp_path / "host",
        vectors_uri=f"s3://{storage.BUCKET}/{name}",
        storage_endpoint=storage.endpoint,
        storage_access_key=storage.ACCESS_KEY,
        storage_secret_key=storage.SECRET_KEY,
        state_uri=f"postgresql://{database.USER}@127.0.0.1:{database.port}/{name}",
        catalog_uri=f"ducklake:postgres:host=127.0.0.1 port={database.port} dbname={name} user={database.USER}",
    )
