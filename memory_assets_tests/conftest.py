"""Fixtures for every test: its own home, data folder and settings, isolated from the real ones."""

import gc
import os
import shutil
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, wraps
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
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
from memory_assets.stores import records
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
"""Whether to run the tests that take minutes; `make long` sets it."""
COMPUTED = ((BgeEmbedder, "_vectors"), (judge, "_run"), (Analyzer, "_find"))
"""Functions whose result rows each depend on one text or pair of texts alone, which the tests of language/ check."""
_MADE_OF: WeakKeyDictionary[Analyzer, Any] = WeakKeyDictionary()
"""Analyzer -> what its findings depend on, recorded at its first text."""
SHARED = frozenset({"service", "site", "server", "servers"})
"""Fixtures that start servers for many tests."""
SAMPLE = Path(__file__).parent.parent / "data" / "sample"


class _NoPandas(MetaPathFinder):
    """DuckDB searches for pandas twice for each parameter of a query, and pytest makes a search in vain take a millisecond."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def pytest_configure() -> None:
    """Speed up the suite; put the thousands of test folders in memory if there is room, as every commit would wait for the disk.

    The garbage collector runs as rarely as in the program. DuckDB uses only the calling thread, because the tables are small and its
    other threads would spin; processes that tests start keep all its threads. Certificates are loaded once. Many tests store the same
    texts, so each text is embedded once. NumPy uses one thread in the workers and their child processes: its others spin while they wait.
    """
    gc.set_threshold(50_000)
    CONFIG["threads"] = 1
    ssl.create_default_context = cache(ssl.create_default_context)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    read_migrations_once()
    make_records_once()
    if not find_spec("pandas"):
        sys.meta_path.insert(0, _NoPandas())
    for owner, name in COMPUTED:
        setattr(owner, name, with_known_rows(getattr(owner, name)))
    with suppress(OSError):
        if shutil.disk_usage(_IN_MEMORY).free > _ROOM_BYTES:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _IN_MEMORY)


def examples(few: int) -> int:
    """Return the number of examples for a test with costly ones; `make long` takes twenty times as many."""
    return few * 20 if IS_LONG else few


def with_known_rows(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it computes each row once per process; `__wrapped__` always computes all rows."""
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
    """Return the analyzer's pipeline and known names: those passed to it, and those in files at its first text."""
    if analyzer not in _MADE_OF:
        files = tuple((path, path.stat().st_mtime_ns) for path in analyzer.gazetteer_paths if path.exists())
        _MADE_OF[analyzer] = analyzer.location, files, frozenset(analyzer.known_names.items())
    return _MADE_OF[analyzer]


def read_migrations_once() -> None:
    """Make Alembic read Dagster's migrations (hundreds of files) only once in this process and its forks."""
    read = ScriptDirectory.from_config
    found: dict[str | None, ScriptDirectory] = {}

    def read_once(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in found:
            found[place] = read(config)
        return found[place]

    setattr(ScriptDirectory, "from_config", read_once)  # noqa: B010 - a class method


def make_records_once() -> None:
    """Make Dagster create new records only once in this process, and copy them; `__wrapped__` always creates them."""
    prepare = records.prepare_records
    made: dict[Path, bytes] = {}

    @wraps(prepare)
    def prepare_copies(home: Path, make: Callable[[Path], object]) -> list[str]:
        def fill(new: Path) -> None:
            if not made:
                make(new)
                made.update({path.relative_to(new): path.read_bytes() for path in new.rglob("*") if path.is_file()})
            for path, content in made.items():
                (new / path).parent.mkdir(parents=True, exist_ok=True)
                (new / path).write_bytes(content)

        return prepare(home, fill)

    records.prepare_records = prepare_copies


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long tests first, so that none is left for the end, then the tests that share a server or a browser.

    Each worker starts with a part of this order and steals from the end of another's, so only one worker starts what is shared.
    """
    items.sort(key=lambda item: (item.get_closest_marker("long") is None, SHARED.isdisjoint(getattr(item, "fixturenames", ()))))


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point every path in the environment of commands, sensors and child processes at the test's folder."""
    for name in list(os.environ):
        if name.startswith(("CLAUDE_", "MEMORY_", "POND_", "OLLAMA_", "OPENAI_", "DAGSTER_")):
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
    monkeypatch.setenv("TMPDIR", "")  # restored after the test; writing sets it
    monkeypatch.delenv("TMPDIR")
    home.mkdir()


@pytest.fixture
def settings() -> Settings:
    """Load the settings from the test's environment."""
    return load_settings()


@pytest.fixture
def tenant(settings: Settings) -> Tenant:
    """Return the tenant `main` of the test's data folder."""
    return Tenant(settings)


@pytest.fixture
def sample_home(tmp_path: Path, loaded_pipeline: None) -> Path:
    """Copy the sample home to the paths in the settings."""
    shutil.copytree(SAMPLE, tmp_path / "home", dirs_exist_ok=True)
    return tmp_path / "home"


Found = TypeVar("Found")
_FILLED: dict[str, tuple[str, Any]] = {}
"""Name -> a copy of a filled tenant's folder and the return value of its `fill`."""


def filled_once(tenant: Tenant, name: str, fill: Callable[[], Found]) -> Found:
    """Fill a new tenant; later tenants of this process get a copy of the first one's folder."""
    if name not in _FILLED:
        session = next(each for each in tenant.settings.data_dir.parents if each.name.startswith(("pytest-", "popen-")))
        _FILLED[name] = mkdtemp(prefix="filled-", dir=session), fill()
        shutil.copytree(tenant.folder, _FILLED[name][0], dirs_exist_ok=True)
    else:
        shutil.copytree(_FILLED[name][0], tenant.folder)
    return _FILLED[name][1]


def make_table(tenant: Tenant, embedder: str, dimension: int) -> None:
    """Create the table of memories with the vector columns of an embedder, as the first memory does, unless it exists."""
    if not tenant.folder.exists():
        columns = tenant.memories.columns
        filled_once(tenant, f"{embedder}, {dimension}", lambda: columns.make_live(columns.add(embedder, dimension)))


WriteSilo = Callable[..., Path]


@pytest.fixture(scope="session")
def loaded_pipeline() -> None:
    """Load the pipeline once, instead of in a process for each run."""
    open_analyzer().load()


@pytest.fixture
def write_silo(settings: Settings, loaded_pipeline: None) -> WriteSilo:
    """Return a function that writes a valid silo file: `write_silo(name, body, kind="project", slug="-home-ada-atlas")`."""

    def write(name: str, body: str, kind: str = "project", slug: str = "-home-ada-atlas") -> Path:
        path = settings.claude_projects_dir / slug / "memory" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: {name}\ndescription: about {name}\ntype: {kind}\n---\n\n{body}\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def chat() -> Iterator[StandIn]:
    """Start a chat model on loopback."""
    stand_in = StandIn()
    yield stand_in
    stand_in.server.shutdown()
    stand_in.server.server_close()
