"""What every test gets: a home, a data folder and settings of its own, and no way to reach the real ones."""

import gc
import os
import shutil
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from memory_assets.language import judge
from memory_assets.language.embedders.bge import BgeEmbedder
from memory_assets.language.pipeline import Analyzer, open_analyzer
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.engine import CONFIG
from memory_assets.tenants import Tenant
from memory_assets_tests.chat_model import StandIn

_IN_MEMORY = "/dev/shm"
_ROOM_BYTES = 4 << 30
_UNTIMED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
hypothesis_settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=_UNTIMED)
hypothesis_settings.register_profile("explore", deadline=None, suppress_health_check=_UNTIMED)
hypothesis_settings.load_profile("suite")  # the same examples on every machine; `--hypothesis-profile explore` looks for new ones
IS_LONG = bool(os.environ.get("MEMORY_LONG_TESTS"))
"""Whether what waits for minutes is waited for: `make long` sets it."""
COMPUTED = ((BgeEmbedder, "_vectors"), (judge, "_run"), (Analyzer, "_find"))
"""The functions of which each row depends on one text, or one pair of texts, alone: language/ tests that they do."""
_MADE_OF: WeakKeyDictionary[Analyzer, Any] = WeakKeyDictionary()
"""What an analyzer's findings depend on, as of its first."""
SHARED = frozenset({"service", "site", "server", "servers"})
"""Fixtures that start servers for many tests."""
SAMPLE = Path(__file__).parent.parent / "data" / "sample"


def pytest_configure() -> None:
    """Let the tests' folders lie in memory where it has room: they are thousands, and each waits for the disk at every commit.

    Garbage is looked for as seldom as in the program itself. DuckDB works in the thread that asks, as the tables are small and
    its other threads would spin; in the processes that tests start it has all its threads. Certificates are loaded once. Many tests store
    the same texts, so each is embedded once. NumPy has one thread in the workers and in what they start: its others spin while they wait.
    """
    gc.set_threshold(50_000)
    CONFIG["threads"] = 1
    ssl.create_default_context = cache(ssl.create_default_context)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    read_migrations_once()
    for owner, name in COMPUTED:
        setattr(owner, name, with_known_rows(getattr(owner, name)))
    with suppress(OSError):
        if shutil.disk_usage(_IN_MEMORY).free > _ROOM_BYTES:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _IN_MEMORY)


def examples(few: int) -> int:
    """How many examples a test takes of which each is costly; `make long` takes twenty times as many."""
    return few * 20 if IS_LONG else few


def with_known_rows(compute: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which computes each row once in this process; `__wrapped__` computes all."""
    known: dict[Any, Any] = {}

    @wraps(compute)
    def rows(model: Any, given: list[Any], *how: Any) -> Any:
        made_of = _made_of(model) if isinstance(model, Analyzer) else model
        keys = [(made_of, each.tobytes() if isinstance(each, np.ndarray) else each) for each in given]
        new = {key: each for key, each in zip(keys, given, strict=True) if key not in known}
        computed = compute(model, list(new.values()), *how) if new or not given else ()
        known.update(zip(new, computed, strict=True))
        found = [known[key] for key in keys]
        return np.stack(found) if found and isinstance(found[0], np.ndarray) else found or computed

    return rows


def _made_of(analyzer: Analyzer) -> Any:
    """Its pipeline, and the names that it knows: those that it was given, and those of files as they are at its first text."""
    if analyzer not in _MADE_OF:
        files = tuple((path, path.stat().st_mtime_ns) for path in analyzer.gazetteer_paths if path.exists())
        _MADE_OF[analyzer] = analyzer.location, files, frozenset(analyzer.known_names.items())
    return _MADE_OF[analyzer]


def read_migrations_once() -> None:
    """Let Alembic read Dagster's migrations, hundreds of files, once in this process and in those that are forked from it."""
    read = ScriptDirectory.from_config
    found: dict[str | None, ScriptDirectory] = {}

    def read_once(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in found:
            found[place] = read(config)
        return found[place]

    setattr(ScriptDirectory, "from_config", read_once)  # noqa: B010 - a class method


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no worker is left with it at the end, then with what shares a server or a browser.

    Each worker begins with a part of this order and takes over from the end of another's, so one worker alone starts what is shared.
    """
    items.sort(key=lambda item: (item.get_closest_marker("long") is None, SHARED.isdisjoint(getattr(item, "fixturenames", ()))))


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point every path at the test's folder: the environment that commands, sensors and child processes see."""
    for name in list(os.environ):
        if name.startswith(("MEMORY_", "POND_", "OLLAMA_", "OPENAI_", "DAGSTER_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    world = {
        "HOME": home,
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_DATA_HOME": home / ".local/share",
        "MEMORY_DATA_DIR": tmp_path / "data",
        "MEMORY_CLAUDE_PROJECTS_DIR": home / ".claude/projects",
        "MEMORY_PAI_SEED": home / ".pai/seed.json",
        "MEMORY_WATCH_SOURCES": "off",
        "MEMORY_SESSION_SUMMARY": "off",
        "MEMORY_PAI_LEARNING_DIR": home / ".pai/MEMORY/LEARNING",
        "DAGSTER_DISABLE_TELEMETRY": "1",
    }
    for name, value in world.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("TMPDIR", "")  # so that it is unset again behind the test: writing sets it
    monkeypatch.delenv("TMPDIR")
    home.mkdir()


@pytest.fixture
def settings() -> Settings:
    """The settings that the test's environment gives."""
    return load_settings()


@pytest.fixture
def tenant(settings: Settings) -> Tenant:
    """The tenant `main` of the test's data folder."""
    return Tenant(settings)


@pytest.fixture
def sample_home(tmp_path: Path, loaded_pipeline: None) -> Path:
    """The sample home, copied to where the settings look."""
    shutil.copytree(SAMPLE, tmp_path / "home", dirs_exist_ok=True)
    return tmp_path / "home"


Found = TypeVar("Found")
_FILLED: dict[str, tuple[str, Any]] = {}
"""Copies of tenants' folders, and what filled them returned, by name."""


def filled_once(tenant: Tenant, name: str, fill: Callable[[], Found]) -> Found:
    """Fill a new tenant; later ones of this process get a copy of what the first one held then."""
    if name not in _FILLED:
        session = next(each for each in tenant.settings.data_dir.parents if each.name.startswith(("pytest-", "popen-")))
        _FILLED[name] = mkdtemp(prefix="filled-", dir=session), fill()
        shutil.copytree(tenant.folder, _FILLED[name][0], dirs_exist_ok=True)
    else:
        shutil.copytree(_FILLED[name][0], tenant.folder)
    return _FILLED[name][1]


def make_table(tenant: Tenant, embedder: str, dimension: int) -> None:
    """Make the table of memories with the vector columns of an embedder, as the first memory does, unless something is there."""
    if not tenant.folder.exists():
        columns = tenant.memories.columns
        filled_once(tenant, f"{embedder}, {dimension}", lambda: columns.make_live(columns.add(embedder, dimension)))


WriteSilo = Callable[..., Path]


@pytest.fixture(scope="session")
def loaded_pipeline() -> None:
    """The pipeline, loaded once and not by a process for each run."""
    open_analyzer().load()


@pytest.fixture
def write_silo(settings: Settings, loaded_pipeline: None) -> WriteSilo:
    """Write a well-formed silo file: `write_silo(name, body, kind="project", slug="-home-ada-atlas")`."""

    def write(name: str, body: str, kind: str = "project", slug: str = "-home-ada-atlas") -> Path:
        path = settings.claude_projects_dir / slug / "memory" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: {name}\ndescription: about {name}\ntype: {kind}\n---\n\n{body}\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def chat() -> Iterator[StandIn]:
    """A chat model on loopback."""
    stand_in = StandIn()
    yield stand_in
    stand_in.server.shutdown()
    stand_in.server.server_close()
