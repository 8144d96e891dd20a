"""Stored data contains no keys and passwords, wherever they came in."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from memory_assets.errors import InvalidInputError
from memory_assets.ingest.direct import import_memories, store_once
from memory_assets.ingest.scans import refresh_source
from memory_assets.language.guard import without_secrets
from memory_assets.language.process import ProcessingError
from memory_assets.models import MAX_CONTENT_LENGTH, NewMemory, Refusal, RelationType, SecretPolicy, Source
from memory_assets.operations.changes import tag
from memory_assets.operations.relate import relate
from memory_assets.operations.scan import scan
from memory_assets.operations.search import search
from memory_assets.operations.status import status as tenant_status
from memory_assets.operations.store import store
from memory_assets.operations.tenants import create_key
from memory_assets.stores.rows import COLUMNS, from_arrow, to_jsonl
from memory_assets.tenants import Tenant, create_tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import ignore, ingest

TOKEN = "AK" + "IA" + "QX7T" * 4
PASSWORD = "kestrel" + "-4711!"


def files_with(folder: Path, *secrets: str) -> list[Path]:
    found = [secret.encode() for secret in secrets]
    return [path for path in folder.rglob("*") if path.is_file() and any(secret in path.read_bytes() for secret in found)]


def use(tenant: Tenant, policy: SecretPolicy) -> Tenant:
    return Tenant(tenant.settings.model_copy(update={"secrets": policy}))


def test_no_byte_of_a_secret_is_kept_however_it_came_in(tenant: Tenant, write_silo: WriteSilo, settings):
    text = f"Staging runs with {TOKEN}, and the admin password is {PASSWORD}"
    store(tenant, NewMemory(text, Source.CLI, tags=(TOKEN,), metadata={"login": {"password": PASSWORD}}))
    once = NewMemory(text, Source.HTTP, id=1 << 52, author=f"mira {TOKEN}")
    assert store_once(tenant, once).memory == store_once(tenant, once).memory
    imported = NewMemory(text, Source.IMPORT, title=TOKEN)
    assert import_memories(tenant, [imported], ignore).added == 1
    assert import_memories(tenant, [imported], ignore).unchanged == 1
    path = write_silo("staging", text)
    ingest(tenant)
    memories = from_arrow(tenant.memories.scan(COLUMNS))
    assert [memory.content.count("[secret: ") for memory in memories] == [2, 2, 2, 2]
    assert memories[0].metadata["login"] == {"password": "[secret: password]"}
    assert files_with(settings.data_dir, TOKEN, PASSWORD) == []
    assert TOKEN not in to_jsonl(memories)
    assert text in path.read_text()


def test_what_a_title_or_a_heading_calls_a_password_is_masked_on_every_road(tenant: Tenant, write_silo: WriteSilo, settings):
    stored = store(tenant, NewMemory(PASSWORD, Source.CLI, title="office-router-password"))
    assert stored.content == "[secret: password]"
    path = write_silo("wlan", "x")
    path.write_text(f"---\nname: wlan\ndescription: Password of the office router\ntype: reference\n---\n{PASSWORD}\n")
    path.with_name("MEMORY.md").write_text(f"## Root password: {PASSWORD}\nof the rack\n\n## WLAN-Passwort\n{PASSWORD}\n")
    ingest(tenant)
    assert files_with(settings.data_dir, PASSWORD, PASSWORD.casefold()) == []
    assert [each.source_key for each in from_arrow(tenant.memories.scan(COLUMNS)) if "root" in each.source_key] == [
        "claude_silo:-home-ada-atlas/MEMORY.md#root password: [secret: password]"
    ]
    assert scan(tenant).leaks == []


def test_a_secret_of_one_field_is_masked_in_all(tenant: Tenant, settings):
    given = NewMemory(
        f"The admin password is {PASSWORD}", Source.CLI, title=f"Type {PASSWORD}", tags=(PASSWORD,), author=PASSWORD
    )
    assert store(tenant, given).title == "Type [secret: password]"
    assert files_with(settings.data_dir, PASSWORD, PASSWORD.strip("!")) == []


def write_index(write_silo: WriteSilo) -> None:
    write_silo("deploy", "Deploy on Mondays.").with_name("MEMORY.md").write_text(
        f"## Trouble\nBo typed {PASSWORD} into the wrong window.\n\n## Panel\nThe panel password is {PASSWORD}\n\n"
        f"## {PASSWORD}\nTried in May.\n\n## Files\nDo not delete.\n- [deploy](deploy.md) - with {PASSWORD}\n"
    )


def test_a_secret_of_one_section_is_masked_in_every_section_of_its_index(tenant: Tenant, write_silo: WriteSilo, settings):
    write_index(write_silo)
    ingest(tenant)
    assert len(tenant.memories) == 5
    assert files_with(settings.data_dir, PASSWORD, PASSWORD.strip("!")) == []


def test_a_section_that_repeats_the_secret_of_another_is_refused_with_it(tenant: Tenant, write_silo: WriteSilo):
    write_index(write_silo)
    ingest(use(tenant, SecretPolicy.REFUSE))
    assert {each.title for each in from_arrow(tenant.memories.scan(COLUMNS))} == {"deploy", "Files"}


def test_a_secret_of_one_line_is_masked_in_every_line_of_its_import(tenant: Tenant, settings):
    lines = (f"Bo typed {PASSWORD} into the wrong window.", f"The panel password is {PASSWORD}", "Deploy on Mondays.")
    import_memories(tenant, [NewMemory(each, Source.IMPORT) for each in lines], ignore)
    assert sum("[secret: password]" in each.content for each in from_arrow(tenant.memories.scan(COLUMNS))) == 2
    assert files_with(settings.data_dir, PASSWORD, PASSWORD.strip("!")) == []


def test_a_secret_in_a_question_leaves_with_no_embedding(tenant: Tenant, monkeypatch: pytest.MonkeyPatch):
    store(tenant, NewMemory(f"The wiki password: {PASSWORD}", Source.CLI))
    asked: list[str] = []
    embed = tenant.embedder.embed
    monkeypatch.setattr(tenant.embedder, "embed", lambda texts, *how: (asked.extend(texts), embed(texts, *how))[1])
    assert len(search(tenant, f"is the wiki password: {PASSWORD} right?", everything=True).memories) == 1
    assert asked and not any(PASSWORD in text for text in asked)


def _tag(tenant: Tenant, text: str) -> object:
    return tag(tenant, store(tenant, NewMemory("Billing runs at night.", Source.CLI)).id, add=[text]).tags


def _note_of_relation(tenant: Tenant, text: str) -> object:
    one, other = (store(tenant, NewMemory(f"Billing runs at {hour}.", Source.CLI)).id for hour in (2, 3))
    return relate(tenant, one, RelationType.RELATES_TO, other, note=text, stated_by="cli").note


def _description_of_key(tenant: Tenant, text: str) -> object:
    create_tenant(tenant)
    return create_key(tenant, text).description


@pytest.mark.parametrize("road", [_tag, _note_of_relation, _description_of_key])
def test_what_is_written_beside_a_memory_goes_through_the_same_guard(
    tenant: Tenant, road: Callable[[Tenant, str], object], settings
):
    assert "secret" in str(road(tenant, TOKEN))
    assert files_with(settings.data_dir, TOKEN, TOKEN.lower()) == []


@pytest.mark.parametrize("road", [_tag, _note_of_relation, _description_of_key])
def test_what_is_written_beside_a_memory_is_refused_or_kept_as_the_settings_say(
    tenant: Tenant, road: Callable[[Tenant, str], object]
):
    with pytest.raises(InvalidInputError, match=r"holds a secret \(aws access key\); take it out, or set MEMORY_SECRETS to mask"):
        road(use(tenant, SecretPolicy.REFUSE), TOKEN)
    other = Tenant(use(tenant, SecretPolicy.ALLOW).settings, "other")
    assert TOKEN.lower() in str(road(other, TOKEN)).lower()


def test_status_names_the_file_that_still_holds_a_secret(tenant: Tenant, write_silo: WriteSilo):
    path = write_silo("staging", f"The admin password is {PASSWORD}")
    write_silo("other", "Nothing to hide.")
    ingest(tenant)
    assert tenant_status(tenant).masked == {str(path): {"password": 1}}


def test_a_text_with_a_secret_is_refused_where_the_settings_say_so(tenant: Tenant, write_silo: WriteSilo):
    strict = use(tenant, SecretPolicy.REFUSE)
    with pytest.raises(ProcessingError, match=r"holds a secret \(password\).*MEMORY_SECRETS") as refused:
        store(strict, NewMemory(f"The admin password is {PASSWORD}", Source.CLI))
    assert PASSWORD not in str(refused.value)
    path = write_silo("staging", f"The admin password is {PASSWORD}")
    write_silo("other", "Nothing to hide.")
    outcome = refresh_source(strict, Source.CLAUDE_SILO)
    assert [(refusal.path, refusal.reason) for refusal in outcome.refusals] == [(str(path), "it holds a secret (password)")]
    assert sum(outcome.items_by_kind.values()) == 1
    assert len(strict.memories) == 0


def refused(tenant: Tenant) -> list[Refusal]:
    return [refusal for refusal in tenant_status(tenant).refusals if not refusal.passed_over]


@pytest.mark.parametrize("policy", [SecretPolicy.MASK, SecretPolicy.REFUSE])
def test_a_file_whose_name_holds_a_secret_is_refused_until_it_is_renamed(
    tenant: Tenant, write_silo: WriteSilo, settings, policy: SecretPolicy
):
    tenant = use(tenant, policy)
    path = write_silo("staging", "The kiln is warm.")
    path = path.rename(path.with_name(f"{TOKEN}.md"))
    path.with_name("MEMORY.md").write_text(f"- [The kiln]({path.name}) is warm\n")
    write_silo("other", "Nothing to hide.")
    ingest(tenant)
    shown = path.with_name("[secret: aws access key].md")
    (refusal,) = refused(tenant)
    assert (refusal.path, refusal.reason) == (str(shown), "its name holds a secret (aws access key)")
    assert refusal.mend.startswith("rename it")
    (folder,) = tenant_status(tenant).folders
    assert (folder.refused, folder.waiting, folder.taken_in) == (1, 0, 1)
    assert refresh_source(tenant, Source.CLAUDE_SILO).files_read == 0
    assert files_with(settings.data_dir, TOKEN) == []
    path.rename(path.with_name("kiln.md"))
    ingest(tenant)
    assert refused(tenant) == []
    assert "about staging\n\nThe kiln is warm." in [memory.content for memory in from_arrow(tenant.memories.scan(COLUMNS))]


def test_a_folder_whose_name_holds_a_secret_is_refused_and_not_gone(tenant: Tenant, write_silo: WriteSilo):
    write_silo("kiln", "The kiln is warm.", slug=f"-home-ada-{TOKEN}")
    for _ in range(2):
        refresh_source(tenant, Source.CLAUDE_SILO)
        assert [refusal.reason for refusal in refused(tenant)] == ["its name holds a secret (aws access key)"]


def test_a_name_with_a_secret_is_taken_in_where_the_settings_allow_it_and_refused_once_they_do_not(
    tenant: Tenant, write_silo: WriteSilo
):
    write_silo(TOKEN, "The kiln is warm.")
    assert sum(refresh_source(use(tenant, SecretPolicy.ALLOW), Source.CLAUDE_SILO).items_by_kind.values()) == 1
    outcome = refresh_source(use(tenant, SecretPolicy.MASK), Source.CLAUDE_SILO)
    assert (len(outcome.refusals), outcome.items_by_kind) == (1, {})


def test_secrets_are_kept_where_the_settings_allow_them(tenant: Tenant):
    text = f"The admin password is {PASSWORD}"
    assert store(use(tenant, SecretPolicy.ALLOW), NewMemory(text, Source.CLI)).content == text


def test_a_text_of_the_greatest_length_may_grow_by_its_masks(tenant: Tenant):
    text = "pw: k7!aaa ".ljust(MAX_CONTENT_LENGTH, ".")
    assert len(store(tenant, NewMemory(text, Source.CLI)).content) > MAX_CONTENT_LENGTH
    with pytest.raises(ProcessingError, match="7,501 characters"):
        store(tenant, NewMemory(text + ".", Source.CLI))


def test_a_record_without_secrets_stays_the_same_object():
    plain = NewMemory("The password policy asks for twelve characters.", Source.CLI, metadata=json.loads('{"a": [1, null, "b"]}'))
    assert without_secrets(plain) is plain
    assert without_secrets(replace(plain, title=TOKEN)) == replace(plain, title="[secret: aws access key]")
