"""Checkouts of one repository share memories, though its remote is spelled in another case or changes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.ingest.direct import import_memories
from memory_assets.models import NewMemory, Source
from memory_assets.operations.arguments import Narrowing
from memory_assets.operations.search import search
from memory_assets.settings import Settings
from memory_assets.sources.projects import project_of
from memory_assets.tenants import Tenant
from memory_assets_tests.learn.session_hook import hook, told, write_brief


def set_remote(checkout: Path, remote: str) -> None:
    (checkout / ".git").mkdir(parents=True, exist_ok=True)
    (checkout / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')


def test_checkouts_share_memories_and_silence_whatever_the_case_of_their_remotes(
    settings: Settings, atlas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "elsewhere"
    set_remote(atlas, "https://github.com/Acme/Atlas")
    set_remote(other, "git@github.com:acme/atlas.git")
    of_remote = told("note", "Reviewed by Mira.", "github.com/acme/atlas", 2)
    write_brief(settings, told("note", "Released on Friday.", str(atlas)), of_remote)
    (settings.tenant_dir() / "projects.json").write_text(json.dumps({str(atlas): ["github.com/Acme/Atlas"]}))
    (settings.tenant_dir() / "quiet.json").write_text('["github.com/ACME/atlas"]')
    assert hook(cwd=str(other)) == ""
    monkeypatch.chdir(other)
    assert CliRunner().invoke(cli, ["session-start", "--on"]).exit_code == 0
    for number, checkout in enumerate((other, atlas)):
        text = hook(cwd=str(checkout), session=f"s{number}")
        assert "Released on Friday." in text
        assert "Reviewed by Mira." in text


def test_a_checkout_with_a_new_remote_keeps_the_memories_and_the_silence_of_the_former(
    settings: Settings, atlas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, third = tmp_path / "elsewhere", tmp_path / "third"
    for checkout in (atlas, other):
        set_remote(checkout, "git@github.com:mira/atlas.git")
    brief = [told("note", f"Fact of {place.name}.", str(place), number) for number, place in enumerate((atlas, other))]
    write_brief(settings, *brief)
    hook(cwd=str(atlas))
    hook(cwd=str(other))
    set_remote(atlas, "git@github.com:acme/atlas.git")
    set_remote(third, "git@github.com:acme/atlas.git")
    for checkout in (atlas, other, third):
        text = hook(cwd=str(checkout), session=checkout.name)
        assert ("Fact of atlas." in text, "Fact of elsewhere." in text) == (True, True), checkout
    monkeypatch.chdir(other)
    assert CliRunner().invoke(cli, ["session-start", "--off"]).exit_code == 0
    assert hook(cwd=str(third), session="s3") == ""


def test_projects_that_began_as_copies_of_one_repository_are_told_apart(settings: Settings, tmp_path: Path) -> None:
    copies = [tmp_path / "heron", tmp_path / "osprey"]
    write_brief(settings, *(told("note", f"Fact of {each.name}.", str(each), number) for number, each in enumerate(copies)))
    for name in ("template", "heron", "osprey"):
        for each in copies if name == "template" else [tmp_path / name]:
            set_remote(each, f"git@github.com:acme/{name}.git")
            hook(cwd=str(each), session=f"{name} in {each.name}")
    for each in copies:
        text = hook(cwd=str(each), session=each.name)
        assert [f"Fact of {copy.name}." in text for copy in copies] == [copy == each for copy in copies]


def test_a_template_that_is_still_checked_out_shares_nothing_with_the_projects_made_from_it(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkouts = [tmp_path / name for name in ("starter", "heron", "osprey")]
    write_brief(settings, *(told("note", f"Fact of {each.name}.", str(each), number) for number, each in enumerate(checkouts)))
    for remote in ("starter", ""):
        for each in checkouts:
            set_remote(each, f"git@github.com:acme/{remote or each.name}.git")
            hook(cwd=str(each), session=f"{remote} in {each.name}")
    for each in checkouts:
        text = hook(cwd=str(each), session=each.name)
        assert [f"Fact of {other.name}." in text for other in checkouts] == [other == each for other in checkouts]
    monkeypatch.chdir(checkouts[0])
    assert CliRunner().invoke(cli, ["session-start", "--off"]).exit_code == 0
    assert [bool(hook(cwd=str(each), session="s1")) for each in checkouts] == [False, True, True]


def test_a_folder_used_for_one_repository_after_the_other_does_not_join_them(settings: Settings, tmp_path: Path) -> None:
    heron, osprey, scratch = (tmp_path / name for name in ("heron", "osprey", "scratch"))
    write_brief(
        settings, *(told("note", f"Fact of {each.name}.", str(each), number) for number, each in enumerate((heron, osprey)))
    )
    for checkout, remote in ((heron, "acme/heron"), (osprey, "zeta/osprey"), (scratch, "acme/heron"), (scratch, "zeta/osprey")):
        set_remote(checkout, f"git@github.com:{remote}.git")
        hook(cwd=str(checkout), session=f"{remote} in {checkout.name}")
    for checkout in (heron, osprey):
        text = hook(cwd=str(checkout), session=checkout.name)
        assert ("Fact of heron." in text, "Fact of osprey." in text) == (checkout == heron, checkout == osprey)


def test_memories_of_a_project_are_told_and_found_whatever_the_case_of_the_project_they_name(
    settings: Settings, atlas: Path, tenant: Tenant
) -> None:
    set_remote(atlas, "git@github.com:acme/atlas.git")
    named = ["github.com/Acme/Atlas", "Atlas", "github.com/acme/heron"]
    write_brief(settings, *(told("note", f"Fact {number}.", each, number) for number, each in enumerate(named)))
    assert [f"Fact {number}." in hook(cwd=str(atlas), session=f"s{number}") for number in range(3)] == [True, True, False]
    import_memories(tenant, [NewMemory(f"Exports run in {each}.", Source.CLI, project=each) for each in named], lambda *_: None)
    found = search(tenant, "where do exports run", narrowed=Narrowing(here=project_of(atlas)))
    assert {each.content for each in found.memories} == {f"Exports run in {each}." for each in named[:2]}
