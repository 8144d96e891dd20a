"""Packs of rows that backups reuse: none holds a text that was removed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_assets.ingest.direct import store_memories
from memory_assets.keeping.copying import take_backup
from memory_assets.keeping.repository import Repository
from memory_assets.keeping.restoring import restore_backup
from memory_assets.models import NewMemory, RelationType, SecretPolicy, Source
from memory_assets.operations.erase import erase
from memory_assets.operations.scan import mend
from memory_assets.stores.relations import StatedRelation
from memory_assets.tenants import Tenant
from memory_assets_tests.ingest.test_secrets import PASSWORD
from memory_assets_tests.ingest.test_secrets import use as with_policy
from memory_assets_tests.keeping.test_backup import add


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(str(tmp_path / "backups"))


@pytest.mark.parametrize("remove", [lambda tenant, number: erase(tenant, [number], confirm=True), lambda tenant, _: mend(tenant)])
def test_a_backup_after_a_text_was_erased_or_masked_does_not_hold_it(
    tenant: Tenant, repository: Repository, remove: Callable[[Tenant, int], object]
):
    said = f"The admin password is {PASSWORD}"
    given = [NewMemory(text, Source.CLI) for text in (said, "Mira rows.", "Bo sails.", "Ines swims.", "Ada dives.")]
    secret, first, *others = (each.memory.id for each in store_memories(with_policy(tenant, SecretPolicy.ALLOW), given))
    for number, why in zip(others, (said, "because", ""), strict=True):
        tenant.relations.state(StatedRelation(first, number, RelationType.RELATES_TO, note=why))
    before = take_backup(tenant, repository)
    remove(tenant, secret)
    after = take_backup(tenant, repository)
    for snapshot, held in ((before, 2), (after, 0)):
        objects = [repository.get(name, stored) for name, stored in snapshot.objects.items()]
        assert sum(PASSWORD.encode() in content for content in objects) == held


def test_a_backup_of_a_restored_tenant_does_not_hold_what_the_restore_left_out(tenant: Tenant, repository: Repository):
    (erased,), _ = add(tenant, 1, "Ines said kettle-4711"), add(tenant, 4)
    snapshot = take_backup(tenant, repository)
    erase(tenant, [erased], confirm=True)
    shutil.rmtree(tenant.location.path)
    again = Tenant(tenant.settings)
    assert restore_backup(repository, snapshot, again).erased == 1
    (pack,) = take_backup(again, repository).tables["memories"].packs
    assert pack.count == 4


def test_the_first_backup_of_this_release_copies_no_pack_with_a_row_that_may_be_erased(tenant: Tenant, repository: Repository):
    ids = add(tenant, 5)
    snapshot = take_backup(tenant, repository)
    tenant.memories.delete(ids[:1])
    snapshot.tables["memories"].rewritten = None
    repository.write(snapshot)
    (pack,) = take_backup(tenant, repository).tables["memories"].packs
    assert pack.count == 4
