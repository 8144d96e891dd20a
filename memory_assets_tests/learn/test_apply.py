"""Apply and undo: their writes and deletions; a kill at any point loses or duplicates nothing."""

import errno
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from memory_assets.errors import ConflictError
from memory_assets.ingest.scans import read_items, refresh_source, refusals
from memory_assets.language.embedders import open_embedder
from memory_assets.learn.apply import lock_curation
from memory_assets.learn.curation import Curation
from memory_assets.learn.journal import Status
from memory_assets.learn.memory_files import read_silos, render
from memory_assets.learn.reports import Decided
from memory_assets.models import Kind, Source
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.learn import review, undo
from memory_assets.operations.scan import mend, scan
from memory_assets.sources.frontmatter import parse
from memory_assets.tenants import Tenant
from memory_assets_tests.learn.conftest import ATLAS, INDEX, LAB, MARKERS, OpenCuration, decide, homes_of, tree, write

CATALOG = "catalog.duckdb"
EFFECTS = ("rename", "replace", "unlink", "mkdir", "utime", "fsync")
"""Functions of `os` that rename, delete, create or complete a file; those that act on folders alone change no file."""


class KilledError(BaseException):
    """A simulated kill: nothing catches it, and nothing runs after it."""


@contextmanager
def before_effects(act: Callable[[str, Any], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Call `act` with the name and first argument of each effect, just before it; the effects of `act` itself do not count."""
    acting = False

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> None:
            nonlocal acting
            is_effect = not acting and not (name == "fsync" and stat.S_ISDIR(os.fstat(args[0]).st_mode))
            if is_effect:
                acting = True
                try:
                    act(name, args[0])
                finally:
                    acting = False
            real(*args, **options)

        return step

    with monkeypatch.context() as patched:
        for name in EFFECTS:
            patched.setattr(os, name, watched(name, getattr(os, name)))
        yield


@contextmanager
def killed_before(effect: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the process die before an effect of this number, and do nothing after it."""
    numbers = count()

    def die(_name: str, _what: Any) -> None:
        if next(numbers) >= effect:
            raise KilledError

    with before_effects(die, monkeypatch):
        yield


@contextmanager
def states_before_effects(states: Path, places: list[Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Copy what lies in `places` before each effect to a folder below `states`; a file that is being written is copied half.

    The catalog, which no effect changes, is copied once, beside `states`.
    """
    numbers = count()

    def copy(name: str, what: Any) -> None:
        number = next(numbers)
        state = states / f"{number:03}-{name}"
        for place in places:
            shutil.copytree(place, state / place.name, ignore=shutil.ignore_patterns(CATALOG))
        if name == "fsync":
            written = Path(f"/proc/self/fd/{what}").readlink()
            (place,) = [place for place in places if written.is_relative_to(place)]
            os.truncate(state / place.name / written.relative_to(place), written.stat().st_size // 2)
        if not number:
            shutil.copy(places[1] / "main" / CATALOG, states.parent)

    with before_effects(copy, monkeypatch):
        yield


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync: a process that dies loses nothing that it wrote."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def decided(curated_home: Path, open_curation: OpenCuration) -> Path:
    """The home after check and review."""
    open_curation().check()
    decide(open_curation(), plan_first=Status.ACCEPTED, mornings=Status.ACCEPTED, tabs=Status.REJECTED)
    return curated_home


def visible_texts(home: Path) -> str:
    """Return everything that a reader considers a memory, in silos and homes."""
    found = [*home.glob(".claude/projects/*/memory/[!.]*.md"), *home.glob(".pai/MEMORY/LEARNING/*/[!.]*.md")]
    return "\n".join(path.read_text() for path in found)


def test_what_a_person_corrected_in_a_home_stands_before_an_older_silo_file(decided: Path, open_curation: OpenCuration) -> None:
    open_curation().apply()
    role = decided / ".pai/MEMORY/LEARNING/USER/user_role.md"
    role.write_text(role.read_text().replace("captain since May", "captain since June"))
    silo = decided / ".claude/projects" / LAB / "memory/role3.md"
    write(silo, "role", "Ada is mate.", "user", "2026-05-03T10:00:00Z")
    open_curation().check()
    outcome = open_curation().apply()
    assert "Ada is captain since June." in role.read_text()
    assert [each.content.rpartition("\n")[2] for each in outcome.planned.superseded] == ["Ada is mate."]
    assert not silo.exists()
    june = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
    os.utime(role, (june, june))
    write(silo, "role", "Ada is admiral.", "user", "2026-07-01T10:00:00Z")
    open_curation().check()
    open_curation().apply()
    assert "Ada is admiral." in role.read_text()


def test_apply_moves_what_was_decided_and_undo_brings_it_back_byte_for_byte(decided: Path, open_curation: OpenCuration) -> None:
    silos, homes = decided / ".claude", decided / ".pai/MEMORY/LEARNING"
    before, homes_before = tree(silos), tree(homes)
    times = {path: path.stat().st_mtime_ns for path in silos.rglob("*.md") if path.name != "MEMORY.md"}

    outcome = open_curation().apply()

    assert sorted(path.name for path in silos.rglob("*.md")) == ["MEMORY.md", "MEMORY.md", "plain.md", "tabs.md"]
    assert (silos / "projects" / ATLAS / "memory/MEMORY.md").read_bytes() == INDEX.replace(
        b"- [Port](port.md) \xe2\x80\x94 asked for twice\r\n- [Role](role.md)\n", b""
    ).replace(b"- [Plan first](plan-first.md) - always\r\n", b"")
    assert (silos / "projects" / LAB / "memory/MEMORY.md").read_bytes() == b""
    loaded = homes_of(open_curation())
    assert not loaded.left
    assert sorted((each.item.kind.value, each.item.title, each.path.name) for each in loaded.entries) == [
        ("feedback", "mornings", "feedback_mornings.md"),
        ("feedback", "plan-first", "feedback_plan_first.md"),
        ("project", "port", "project_port.md"),
        ("reference", "graf", "reference_graf.md"),
        ("user", "role", "user_role.md"),
    ]
    for entry in loaded.entries:
        assert not entry.missing_provenance
        assert {"original_path", "source_hash"} <= parse(entry.path.read_text())[0].keys()
    port, _ = parse((homes / "PROJECT/project_port.md").read_text())
    assert port["index_hook"] == ["asked for twice"]
    assert port["metadata"] == {"node_type": "memory", "modified": "2026-05-01T10:00:00Z"}
    assert port["type"] == "project"
    assert next(each for each in loaded.entries if each.item.kind is Kind.USER).item.body == "Ada is captain since May."
    assert outcome.history == 1
    assert [each.title for each in outcome.planned.superseded] == ["role"]
    assert outcome.planned.plan.told == (
        "REFERENCE: 2 entries named 'graf' say the same and become one.",
        "USER: of 2 entries named 'role' the newest wins, 1 kept as history.",
    )
    assert {(each.path.name, each.reason) for each in outcome.planned.waiting} == {("tabs.md", "its proposal was rejected")}
    again = open_curation().apply()
    assert not (again.planned.plan.taken or again.planned.plan.placed)

    _, left = open_curation().undo()

    assert not left
    assert tree(silos) == before
    assert {name: kept for name, kept in tree(homes).items() if kept[1] or not name.isupper()}.items() >= {
        name: kept for name, kept in homes_before.items() if not name.endswith("review.md")
    }.items()
    assert not [path for path in homes.rglob("*.md") if path.parent != homes and path.name != "reference_graf.md"]
    assert {path: path.stat().st_mtime_ns for path in times} == times
    with pytest.raises(ConflictError, match="no apply to undo"):
        open_curation().undo()
    open_curation().apply()
    assert len(homes_of(open_curation()).entries) == 5


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("step", [Curation.apply, Curation.undo], ids=["apply", "undo"])
def test_a_kill_between_any_two_effects_changes_nothing_in_the_end(
    step: Callable[[Curation], object],
    decided: Path,
    open_curation: OpenCuration,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Run the step again from each state of the disk before an effect, which is the state that a kill leaves."""
    if step is Curation.undo:
        open_curation().apply()
    places = [decided, tmp_path / "data"]
    states = tmp_path / "states"
    with states_before_effects(states, places, monkeypatch):
        step(open_curation())
    uninterrupted = tree(*places)
    found = sorted(states.iterdir())
    assert len(found) > 30
    for state in found:
        for place in places:
            shutil.rmtree(place)
            shutil.copytree(state / place.name, place)
        shutil.copy(states.parent / CATALOG, tmp_path / "data/main")
        seen = visible_texts(decided)
        assert all(marker in seen for marker in MARKERS if marker != "keeper of the lighthouse"), f"lost at {state.name}"
        if step is Curation.undo and tree(*places) == uninterrupted:
            continue  # it was finished, and another undo would find nothing
        step(open_curation())
        assert tree(*places) == uninterrupted, f"killed before effect {state.name}"
        shutil.rmtree(state)


@pytest.mark.usefixtures("quick")
def test_an_interrupted_apply_can_be_undone_from_every_point(
    decided: Path, open_curation: OpenCuration, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    silos = decided / ".claude"
    before = tree(silos)
    base = tmp_path / "base"
    shutil.copytree(tmp_path / "data", base / "data")
    shutil.copytree(decided, base / "home")
    for number in range(20, 200, 7):
        for place in ("data", "home"):
            shutil.rmtree(tmp_path / place)
            shutil.copytree(base / place, tmp_path / place)
        try:
            with killed_before(number, monkeypatch):
                open_curation().apply()
        except KilledError:
            if open_curation().journal.latest() is None:
                continue
        else:
            break
        open_curation().undo()
        assert tree(silos) == before
        assert [entry.path.name for entry in homes_of(open_curation()).entries] == ["reference_graf.md"]


def test_a_real_kill_loses_nothing_and_the_next_apply_finishes(
    decided: Path, open_curation: OpenCuration, tmp_path: Path
) -> None:
    silos = decided / ".claude/projects"
    program = (
        "import time\nimport os\nfrom memory_assets.learn import curation\nfrom memory_assets.settings import load_settings\n"
        "from memory_assets.tenants import Tenant\ncuration.keep_history = lambda *_: 0\nunlink = os.unlink\n"
        "def slowly(path):\n    unlink(path)\n"
        "    if '.memory-learn-old' in str(path):\n        print('deleted', flush=True)\n        time.sleep(30)\n"
        "os.unlink = slowly\ncuration.Curation(Tenant(load_settings())).apply()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "deleted\n"
        with pytest.raises(ConflictError, match="Another check, review, apply or undo is running"):
            open_curation().apply()
        process.send_signal(signal.SIGKILL)
    seen = visible_texts(decided)
    assert all(marker in seen for marker in MARKERS if marker != "keeper of the lighthouse")

    outcome = open_curation().apply()

    assert outcome.finished
    assert outcome.finished.number == 1
    assert not outcome.planned.plan.taken
    assert sorted(path.name for path in silos.rglob("*.md")) == ["MEMORY.md", "MEMORY.md", "plain.md", "tabs.md"]
    assert len(homes_of(open_curation()).entries) == 5


def test_what_changed_since_the_check_stays(decided: Path, open_curation: OpenCuration) -> None:
    atlas = decided / ".claude/projects" / ATLAS / "memory"
    (atlas / "port.md").write_text((atlas / "port.md").read_text().replace("8931", "8932"))
    (atlas / "plan-first.md").write_text((atlas / "plan-first.md").read_text() + "And wait.\n")
    write(atlas / "new.md", "new", "Nobody saw this yet.", "project")

    outcome = open_curation().apply()

    assert {path.name for path in atlas.glob("*.md")} == {
        "MEMORY.md",
        "port.md",
        "plan-first.md",
        "new.md",
        "plain.md",
        "tabs.md",
    }
    assert {each.path.name: each.reason for each in outcome.planned.waiting} == {
        "port.md": "it changed since the check",
        "plan-first.md": "it changed since the check",
        "new.md": "no check has seen it yet",
        "tabs.md": "its proposal was rejected",
    }
    assert b"port.md" in (atlas / "MEMORY.md").read_bytes()


def test_what_changes_while_it_is_applied_stays(
    decided: Path, open_curation: OpenCuration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the assistant write to a file and to the index at the very moment in which they are moved."""
    atlas = decided / ".claude/projects" / ATLAS / "memory"
    rename = os.rename

    def late(path: Path, target: Path) -> None:
        if path.name == "port.md":
            path.write_text(path.read_text().replace("8931", "8999"))
        rename(path, target)
        if path.name == "graf.md":
            write(path, "graf", "Dashboards have moved.", "reference")

    monkeypatch.setattr(os, "rename", late)
    outcome = open_curation().apply()

    assert "8999" in (atlas / "port.md").read_text()
    assert "have moved" in (atlas / "graf.md").read_text()
    assert b"port.md" in (atlas / "MEMORY.md").read_bytes()
    assert [text for text in outcome.left if "port.md changed meanwhile" in text]
    assert not list(atlas.glob(".*"))


def test_nothing_is_touched_over_links_or_outside_of_silos(
    curated_home: Path, open_curation: OpenCuration, tmp_path: Path
) -> None:
    projects = curated_home / ".claude/projects"
    outside = tmp_path / "outside"
    write(outside / "memory" / "secret.md", "secret", "Do not touch.", "project")
    (projects / "linked-silo").symlink_to(outside)
    (projects / "linked-memory").mkdir()
    (projects / "linked-memory/memory").symlink_to(outside / "memory")
    atlas = projects / ATLAS / "memory"
    (atlas / "link.md").symlink_to(atlas / "port.md")
    (atlas / "out.md").symlink_to(outside / "memory/secret.md")
    write(projects / "odd-index/memory" / "kept.md", "kept", "Its index is a link.", "project")
    (projects / "odd-index/memory/MEMORY.md").symlink_to(outside / "memory/secret.md")
    write(projects / "wide-index/memory" / "wide.md", "wide", "Its index is UTF-16.", "project")
    (projects / "wide-index/memory/MEMORY.md").write_bytes("- [w](wide.md)".encode("utf-16"))
    write(projects / ATLAS / "deep/memory" / "deep.md", "deep", "Not in a silo.", "project")
    os.mkfifo(atlas / "pipe.md")
    before = tree(outside)

    open_curation().check()
    curation = open_curation()
    outcome = curation.apply()

    assert tree(outside) == before
    for kept in ("link.md", "out.md", "pipe.md", "../deep/memory/deep.md", "../../odd-index/memory/kept.md"):
        assert os.path.lexists(atlas / kept)
    assert (projects / "wide-index/memory/wide.md").exists()
    assert not {"secret", "deep", "kept", "wide"} & {Path(each.path).stem for each in outcome.planned.plan.taken}
    reasons = {Path(each.path).name: each.reason for each in read_silos(curation.tenant).left}
    assert "symbolic link" in reasons["linked-silo"]
    assert "symbolic link" in reasons["link.md"]
    assert "MEMORY.md is a symbolic link" in reasons["kept.md"]
    assert "UTF-16" in reasons["wide.md"]


def test_two_at_once_one_refuses(decided: Path, open_curation: OpenCuration) -> None:
    curation = open_curation()
    before = tree(decided)
    with lock_curation(curation.folder, curation.projects_dir), ThreadPoolExecutor() as others:
        for step in (open_curation().apply, open_curation().undo, open_curation().check):
            with pytest.raises(ConflictError, match="Another check, review, apply or undo is running"):
                others.submit(step).result()
    assert tree(decided) == before


def test_a_canonical_file_that_was_edited_since_is_kept_by_undo(decided: Path, open_curation: OpenCuration) -> None:
    open_curation().apply()
    canonical = decided / ".pai/MEMORY/LEARNING/PROJECT/project_port.md"
    canonical.write_text(canonical.read_text() + "Since June 9000.\n")
    index = decided / ".claude/projects" / LAB / "memory/MEMORY.md"
    index.write_text("- [Tea](tea.md)")

    _, left = open_curation().undo()

    assert left == (f"{canonical} changed since and was left alone.",)
    assert "Since June 9000." in canonical.read_text()
    assert index.read_text() == "- [Tea](tea.md)\n- [Role](role2.md)\n- [Mornings](mornings.md)\n"


def test_undo_keeps_the_canonical_file_where_its_silo_file_cannot_return(decided: Path, open_curation: OpenCuration) -> None:
    open_curation().apply()
    taken = decided / ".claude/projects" / ATLAS / "memory/port.md"
    write(taken, "port", "Another memory of this name.", "project")

    _, left = open_curation().undo()

    assert "Another memory" in taken.read_text()
    assert "8931" in (decided / ".pai/MEMORY/LEARNING/PROJECT/project_port.md").read_text()
    assert [text for text in left if "is another file now" in text]


def test_a_silo_that_may_not_be_changed_keeps_its_files_and_is_said(
    decided: Path, open_curation: OpenCuration, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def denied(path: Path, target: Path) -> None:
        if LAB in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", denied)
        patched.setattr(os, "replace", denied)
        outcome = open_curation().apply()

    lab = decided / ".claude/projects" / LAB / "memory"
    assert [text for text in outcome.left if text.startswith(f"{lab} cannot be changed (Permission denied)")]
    assert {path.name for path in lab.iterdir()} == {"MEMORY.md", "role2.md", "mornings.md"}
    assert not (decided / ".claude/projects" / ATLAS / "memory/port.md").exists()
    open_curation().apply()
    assert not (lab / "role2.md").exists()


def test_copies_that_hold_a_secret_are_found_and_removed_and_undo_says_so(decided: Path, open_curation: OpenCuration) -> None:
    key = "ghp_" + "Zk3Lq9Vt2Xw7Rb5Nd8Mf1Hs6Jc4Pg0Ya2Te9"
    write(decided / ".claude/projects" / ATLAS / "memory/token.md", "token", f"The token is {key}.", "reference")
    open_curation().check()
    open_curation().apply()
    tenant = open_curation().tenant

    places = [leak.place for leak in scan(tenant).leaks]
    assert len(places) == 1
    assert places[0].startswith("The copies of curated memories")
    assert not [path for path in tenant.folder.rglob("*.json") if key in path.read_text()]
    mend(tenant)
    assert not scan(tenant).leaks
    with pytest.raises(ConflictError, match="its copies are gone, as after an erasure or a scan"):
        open_curation().undo()


def test_a_guessed_date_stays_a_guess_in_its_home_and_back_in_its_silo(curated_home: Path, open_curation: OpenCuration) -> None:
    def guessed(source: Source) -> dict[str, bool]:
        refresh_source(open_curation().tenant, source)
        items = (each.item for each in read_items(open_curation().tenant.catalog, source))
        return {item.title: "created_at" in item.metadata.get("guessed", ()) for item in items if item.kind is Kind.REFERENCE}

    cloned = curated_home / ".claude/projects" / ATLAS / "memory/wiki.md"
    cloned.write_text("---\nname: wiki\ndescription: where the wiki is\ntype: reference\n---\n\nThe wiki is on host otter.\n")
    os.utime(cloned, (1_767_225_600, 1_767_225_600))
    open_curation().check()
    assert guessed(Source.CLAUDE_SILO) == {"graf": False, "wiki": True}

    open_curation().apply()
    fields, _ = parse((curated_home / ".pai/MEMORY/LEARNING/REFERENCE/reference_wiki.md").read_text())
    assert (fields["created"], fields["date_guessed"]) == ("2026-01-01T00:00:00Z", "true")
    assert guessed(Source.PAI_LEARNING) == {"graf": False, "wiki": True}
    assert guessed(Source.CLAUDE_SILO) == {}

    open_curation().undo()
    assert guessed(Source.CLAUDE_SILO) == {"graf": False, "wiki": True}


def test_undo_leaves_no_folder_that_the_apply_made(decided: Path, open_curation: OpenCuration) -> None:
    homes = decided / ".pai/MEMORY/LEARNING"
    (homes / "PROJECT").mkdir()
    before = {path for path in homes.rglob("*") if path.is_dir()}
    open_curation().apply()
    assert (homes / "USER").is_dir()
    applied = homes_of(open_curation()).entries
    assert any("USER" in entry.item.key for entry in applied)
    open_curation().undo()
    assert {path for path in homes.rglob("*") if path.is_dir()} == before
    after = open_curation()
    assert not any("USER" in entry.item.key for entry in homes_of(after).entries)
    assert not any("is gone" in str(each) for each in refusals(after.tenant.catalog, Source.PAI_LEARNING))


def test_the_hash_of_every_joined_file_is_kept(decided: Path, open_curation: OpenCuration) -> None:
    def states(path: Path) -> str:
        return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"

    atlas, lab = (decided / ".claude/projects" / slug / "memory" for slug in (ATLAS, LAB))
    newest, outdone, standing = states(lab / "role2.md"), states(atlas / "role.md"), states(atlas / "graf.md")
    open_curation().apply()
    homes = decided / ".pai/MEMORY/LEARNING"
    role, _ = parse((homes / "USER/user_role.md").read_text())
    assert (role["source_hash"], role["merged_hashes"]) == (newest, [outdone])
    graf, _ = parse((homes / "REFERENCE/reference_graf.md").read_text())
    assert (graf["source_hash"], graf.get("merged_hashes")) == (standing, None)

    write(lab / "graf2.md", "graf", "Dashboards: https://grafana.example", "reference", "2026-04-01T10:00:00Z")
    joined = states(lab / "graf2.md")
    open_curation().check()
    open_curation().apply()
    graf, _ = parse((homes / "REFERENCE/reference_graf.md").read_text())
    assert (graf["source_hash"], graf["merged_hashes"]) == (standing, [joined])
    assert graf["merged_from"] == [str(lab / "graf2.md")]


def test_what_a_person_wrote_into_the_frontmatter_of_a_home_is_kept(decided: Path, open_curation: OpenCuration) -> None:
    path = decided / ".pai/MEMORY/LEARNING/REFERENCE/reference_graf.md"
    fields, body = parse(path.read_text())
    own = {"merged_from": "/old/graf.md", "index_hook": [{"Graf": "on Mondays"}, "dashboards"], "merged_hashes": ""}
    path.write_bytes(render({**fields, **own}, body))
    silo = decided / ".claude/projects" / LAB / "memory"
    write(silo / "graf2.md", "graf", "Dashboards: https://grafana.example", "reference", "2026-04-01T10:00:00Z")
    (silo / "MEMORY.md").write_text("- [Graf](graf2.md) - where they are\n")
    open_curation().check()
    open_curation().apply()
    fields, _ = parse(path.read_text())
    assert fields["merged_from"][0] == "/old/graf.md"
    assert str(silo / "graf2.md") in fields["merged_from"]
    assert fields["index_hook"] == ["Graf: on Mondays", "dashboards", "where they are"]


def test_what_a_rating_without_a_time_taught_is_applied(curated_home: Path, open_curation: OpenCuration) -> None:
    signals = curated_home / ".pai/MEMORY/LEARNING/SIGNALS"
    signals.mkdir()
    line = {"rating": 2, "source": "explicit", "comment": "Run the tests before you commit."}
    (signals / "ratings.jsonl").write_text(json.dumps(line) + "\n")
    open_curation().check()
    (learned,) = (each for each in open_curation().decisions().proposals if not each.silo_files)
    open_curation().decide([Decided(learned.id, Status.ACCEPTED)])
    open_curation().apply()
    assert open_curation().decisions().find(learned.id).status is Status.APPLIED


POINTERS = """# Index

- [Port](port.md) where it listens
- [ ] [Graf](./graf.md#top)
- [[role]]
* `quay.md`
1. [Mole](mole.md "the mole")

| file | what |
|---|---|
| [Pier](pier.md) | the long one |
| [[lock\\|Lock]] | the old one |

Ask [Dock](dock.md) or [Port](port.md) first.
- [Dock](dock.md), [Plain](plain.md)
- Mind what dock.md says.
- [Quay](quay.md)
  - which is wet

	in winter
- [Mole](../memory/MOLE.MD)
- [Pier](pier), [[./lock]]
- dock: the dry one
"""


def test_a_pointer_goes_with_its_file_in_any_form_or_is_named(curated_home: Path, open_curation: OpenCuration) -> None:
    atlas = curated_home / ".claude/projects" / ATLAS / "memory"
    for name in ("quay", "mole", "pier", "lock", "dock"):
        write(atlas / f"{name}.md", name, f"What there is to say of the {name}.", "project")
    (atlas / "MEMORY.md").write_text(POINTERS)
    before = tree(atlas)
    open_curation().check()

    left = open_curation().apply().left

    kept = ["# Index", "", "", "| file | what |", "|---|---|", "", *POINTERS.splitlines()[-10:-7], *POINTERS.splitlines()[-6:]]
    index = (atlas / "MEMORY.md").read_text()
    assert index.splitlines() == kept
    assert left == tuple(
        f"{atlas / 'MEMORY.md'} still refers to {name} in line {number}."
        for number, name in (
            *((7, "dock.md"), (7, "port.md"), (8, "dock.md"), (9, "dock.md"), (10, "quay.md"), (12, "quay.md")),
            *((13, "mole.md"), (14, "lock.md"), (14, "pier.md"), (15, "dock.md")),
        )
    )
    homes = curated_home / ".pai/MEMORY/LEARNING"
    hooks = {name: parse((homes / f"PROJECT/project_{name}.md").read_text())[0].get("index_hook") for name in ("port", "pier")}
    assert hooks == {"port": ["where it listens"], "pier": ["the long one"]}
    open_curation().undo()
    assert tree(atlas) == before


def test_what_passed_through_becomes_one_only_if_review_asks_for_it(
    curated_home: Path, open_curation: OpenCuration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tenant, "embedder", open_embedder("bge-small"))
    project = curated_home / ".pai/MEMORY/LEARNING/PROJECT"
    write(project / "project_backup.md", "backup", "The nightly backup of Atlas runs at two.", "project", "2026-03-01T10:00:00Z")
    write(project / "project_backups.md", "backups", "Atlas has its nightly backup at two; Ada wrote it.", "project")
    write(project / "project_ferry.md", "ferry", "The ferry to the lighthouse is yellow.", "project")
    open_curation().check()
    assert not [each for each in open_curation().decisions().proposals if each.kind is Kind.PROJECT]
    before = tree(project)

    answer = review(open_curation().tenant, deeper=True)
    (found,) = [each for each in answer.proposals if each.kind is Kind.PROJECT]
    assert (found.name, found.files) == ("backups", [str(project / "project_backup.md")])
    open_curation().check()
    assert open_curation().decisions().find(found.id).status is Status.PENDING
    review(open_curation().tenant, accept=[found.id])
    assert tree(project) == before
    open_curation().apply()

    fields, body = parse((project / "project_backups.md").read_text())
    assert "Ada wrote it." in body
    assert "The nightly backup of Atlas runs at two." in body
    assert fields["merged_from"] == [str(project / "project_backup.md")]
    assert sorted(path.name for path in project.iterdir()) == ["project_backups.md", "project_ferry.md", "project_port.md"]
    assert open_curation().decisions().find(found.id).status is Status.APPLIED
    assert not [each for each in review(open_curation().tenant, deeper=True).proposals if each.kind is Kind.PROJECT]

    undone = undo(open_curation().tenant).text(LocalTime(UTC))
    assert undone.partition(": ")[2] == "5 files are back."
    assert tree(project) == before


def test_an_entry_that_changed_since_is_not_consolidated(
    curated_home: Path, open_curation: OpenCuration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tenant, "embedder", open_embedder("bge-small"))
    user = curated_home / ".pai/MEMORY/LEARNING/USER"
    write(user / "user_tea.md", "tea", "Ada drinks green tea in the morning.", "user", "2026-03-01T10:00:00Z")
    write(user / "user_teas.md", "teas", "In the morning Ada drinks green tea.", "user")
    (found,) = [each for each in review(open_curation().tenant, deeper=True).proposals if each.kind is Kind.USER]
    review(open_curation().tenant, accept=[found.id])
    write(user / "user_tea.md", "tea", "Ada drinks coffee now.", "user", "2026-06-01T10:00:00Z")

    outcome = open_curation().apply()

    assert f"{found.id} is of a file that changed since the check" in [each.reason for each in outcome.planned.waiting]
    assert {"user_tea.md", "user_teas.md"} <= {path.name for path in user.iterdir()}
