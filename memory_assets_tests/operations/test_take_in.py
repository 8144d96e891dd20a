"""Changed files are searchable within seconds, without Dagster and without a request."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_assets.learn.brief import NAME, parse_brief
from memory_assets.models import Kind, NewMemory, Source
from memory_assets.operations import take_in as module
from memory_assets.operations.search import search
from memory_assets.operations.store import store
from memory_assets.operations.take_in import SourceWatch, take_in
from memory_assets.settings import Settings, load_settings
from memory_assets.tenants import Tenant
from memory_assets_tests.torture import zygote

_PATIENCE_SECONDS = 60.0
_TAKE_IN = "memory_assets.operations.take_in.take_in"


@pytest.fixture
def silo(settings: Settings) -> Path:
    folder = settings.claude_projects_dir / "-src-atlas" / "memory"
    folder.mkdir(parents=True)
    return folder


def write(silo: Path, name: str, text: str) -> Path:
    path = silo / f"{name}.md"
    path.write_text(f"---\nname: {name}\ndescription: {text}\ntype: project\n---\n\n{text}\n", encoding="utf-8")
    return path


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_what_changed_is_searchable_and_told_and_what_vanished_is_not(tenant: Tenant, silo: Path) -> None:
    path = write(silo, "kettle", "The office kettle is red and was bought in Ghent.")
    (silo / "broken.md").write_text("---\nname: [\n---\n", encoding="utf-8")
    taken = take_in(tenant)
    assert (taken.added, taken.refused) == (1, 1)
    assert "Ghent" in search(tenant, "where was the kettle bought").memories[0].content
    assert "Ghent" in (tenant.folder / "brief.json").read_text(encoding="utf-8")
    assert (take_in(tenant).added, take_in(tenant).updated) == (0, 0)
    path.unlink()
    write(silo, "lamp", "The lamp of the office is broken.")
    assert (take_in(tenant).added, take_in(tenant).vanished) in ((1, 0), (1, 1))
    assert not any("kettle" in each.content for each in search(tenant, "where was the kettle bought").memories)


@pytest.mark.parametrize("left", [None, b'{"format":2}'])
def test_a_brief_that_is_lost_or_of_another_release_is_written_anew_although_no_file_changed(
    tenant: Tenant, left: bytes | None
) -> None:
    take_in(tenant)
    assert tenant.state.get(NAME) is None
    store(tenant, NewMemory("Mira is a baker.", Source.CLI, Kind.USER))
    whole = parse_brief(tenant.state.get(NAME))
    tenant.state.put(NAME, left)
    take_in(tenant)
    renewed = parse_brief(tenant.state.get(NAME))
    assert whole and renewed and renewed.lines == whole.lines


def test_a_watch_takes_in_a_file_that_is_written_and_a_folder_that_appears(
    tenant: Tenant, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    settings.claude_projects_dir.mkdir(parents=True)
    monkeypatch.setattr(_TAKE_IN, lambda watched: taken.append(take_in(watched).added))
    watch = SourceWatch(Tenant(settings.model_copy(update={"watch_sources": "on"})))
    watch.start()
    try:
        wait_until(lambda: taken == [0])
        folder = settings.claude_projects_dir / "-src-borealis" / "memory"
        folder.mkdir(parents=True)
        (folder.parent / "session.jsonl").write_text("{}\n", encoding="utf-8")
        path = write(folder, "kettle", "The office kettle is red.")
        watch.notice(path)
        wait_until(lambda: sum(taken) == 1)
        write(folder, "lamp", "The office lamp is blue.")
        wait_until(lambda: sum(taken) == 2)
    finally:
        watch.stop()
    assert {each.title for each in search(tenant, "office").memories} == {"kettle", "lamp"}


@pytest.mark.parametrize("moved", ["-src-zephyr", "-src-zephyr/memory", "-src-zephyr/memory/lamp.MD"])
def test_a_watch_takes_in_a_file_or_its_folder_that_is_moved_into_place(
    tenant: Tenant, settings: Settings, silo: Path, moved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    write(silo, "kettle", "The office kettle is red.")
    elsewhere = settings.data_dir / "elsewhere"
    (folder := elsewhere / "-src-zephyr" / "memory").mkdir(parents=True)
    write(folder, "lamp", "The office lamp is blue.").rename(folder / "lamp.MD")
    (place := settings.claude_projects_dir / moved).parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(_TAKE_IN, lambda watched: taken.append(take_in(watched).added))
    watch = SourceWatch(Tenant(settings.model_copy(update={"watch_sources": "on"})))
    watch.start()
    try:
        wait_until(lambda: sum(taken) == 1)
        (elsewhere / moved).rename(place)
        wait_until(lambda: sum(taken) == 2)
    finally:
        watch.stop()
    assert {each.title for each in search(tenant, "office").memories} == {"kettle", "lamp"}


Watching = Callable[[Callable[[int], object]], list[int]]


@pytest.fixture
def watching(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watching]:
    """Starts a watch that looks often and calls a function with the number of each turn; returns the numbers."""
    watch = SourceWatch(Tenant(settings.model_copy(update={"watch_sources": "on"})))

    def start(work: Callable[[int], object]) -> list[int]:
        taken: list[int] = []

        def count(_: Tenant) -> None:
            taken.append(len(taken))
            work(taken[-1])

        monkeypatch.setattr(_TAKE_IN, count)
        monkeypatch.setattr(module, "_LOOK_SECONDS", 0.1)
        monkeypatch.setattr(module, "_SETTLING_MS", 50)
        watch.start()
        return taken

    yield start
    watch.stop()


@pytest.mark.usefixtures("silo")
def test_a_failure_that_nobody_foresaw_is_followed_by_another_try_without_a_change(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.02)

    def fail(_: int) -> None:
        raise KeyError("a fault of the program")

    taken = watching(fail)
    wait_until(lambda: len(taken) == 4)
    time.sleep(0.5)
    assert len(taken) < 10, "the pause grows"


def test_a_source_that_is_replaced_under_its_path_is_taken_in_and_watched(
    watching: Watching, settings: Settings, silo: Path
) -> None:
    taken = watching(lambda _: None)
    wait_until(lambda: bool(taken))
    projects = settings.claude_projects_dir
    shutil.copytree(projects, projects.with_name("restored"))
    projects.rename(projects.with_name("old"))
    projects.with_name("restored").rename(projects)
    before = len(taken)
    wait_until(lambda: len(taken) > before)
    before = len(taken)
    write(silo, "kettle", "The office kettle is red.")
    wait_until(lambda: len(taken) > before)


def test_a_source_that_appears_after_the_start_is_taken_in_whole(watching: Watching, settings: Settings) -> None:
    taken = watching(lambda _: None)
    folder = settings.claude_projects_dir.with_name("prepared") / "-src-atlas" / "memory"
    folder.mkdir(parents=True)
    write(folder, "kettle", "The office kettle is red.")
    time.sleep(0.1)
    assert not taken
    settings.claude_projects_dir.with_name("prepared").rename(settings.claude_projects_dir)
    wait_until(lambda: bool(taken))


@pytest.mark.usefixtures("silo")
def test_the_first_take_in_follows_the_begin_of_the_watch(watching: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def begin(*_roots: Path, **_options: object) -> Iterator[set[object]]:
        time.sleep(0.2)
        order.append("watched")
        yield set()

    monkeypatch.setattr("watchfiles.watch", begin)
    watching(lambda _: order.append("taken in"))
    wait_until(lambda: {"watched", "taken in"} <= set(order))
    assert order[0] == "watched"


def test_a_transcript_and_foreign_files_wake_nobody(settings: Settings) -> None:
    watch = SourceWatch(Tenant(settings))
    for path in (settings.claude_projects_dir / "-src" / "a.jsonl", Path("/etc/hosts"), settings.data_dir / "x.md"):
        watch.notice(path)
    assert not watch._due.is_set()
    watch.notice(settings.claude_projects_dir / "-src" / "memory" / "a.md")
    assert watch._due.is_set()


def test_a_session_finds_over_mcp_what_was_written_while_it_ran(
    silo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_WATCH_SOURCES", "on")
    os.mkfifo(tmp_path / "requests")
    server = zygote.shared().start(os.environ.copy(), "mcp", fifo=tmp_path / "requests")
    with (tmp_path / "requests").open("w", buffering=1, encoding="utf-8") as requests:

        def call(method: str, **params: object) -> str:
            answered = len(server.written("out").splitlines())
            requests.write(json.dumps({"jsonrpc": "2.0", "id": answered, "method": method, "params": params}) + "\n")
            wait_until(lambda: server.written("out").count("\n") > answered)
            return server.written("out").splitlines()[-1]

        call("ping")
        write(silo, "kettle", "The office kettle is red and was bought in Ghent.")
        wait_until(lambda: "Ghent" in call("tools/call", name="search", arguments={"query": "kettle", "everywhere": True}))
    assert server.wait().code == 0
    assert search(Tenant(load_settings()), "kettle").count == 1


def test_what_a_session_wrote_last_is_taken_in_after_its_end(silo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = tmp_path / "session.jsonl"
    prompts = ["Draw a quokka.", "Make it blue.", "Thank you."]
    lines = [json.dumps({"type": "user", "message": {"role": "user", "content": each}}) for each in prompts]
    said = {"role": "assistant", "content": [{"type": "text", "text": "The quokka is drawn in blue."}]}
    lines.append(json.dumps({"type": "assistant", "message": said}))
    transcript.write_text("\n".join(lines), encoding="utf-8")
    write(silo, "kettle", "The office kettle is red and was bought in Ghent.")
    given = {"hook_event_name": "SessionEnd", "session_id": "s1", "transcript_path": str(transcript), "cwd": str(tmp_path)}
    monkeypatch.setenv("MEMORY_WATCH_SOURCES", "on")
    monkeypatch.setenv("MEMORY_SESSION_SUMMARY", "on")
    Tenant(load_settings()).folder.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-m", "memory_assets.cli", "session-end"],
        input=json.dumps(given).encode(),
        check=True,
        timeout=_PATIENCE_SECONDS,
    )

    def found(question: str) -> str:
        return "".join(each.content for each in search(Tenant(load_settings()), question).memories)

    wait_until(lambda: "Ghent" in found("kettle") and "Draw a quokka" in found("quokka"))
