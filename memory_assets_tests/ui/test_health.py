"""Pages for doctor, secrets, keys, tenants and backups, and who may see data about the machine."""

import re
from pathlib import Path

from memory_assets.models import SecretPolicy
from memory_assets.operations.backup import backup
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import Tenant
from memory_assets_tests.ingest.test_secrets import PASSWORD
from memory_assets_tests.ui.site import Site, Visitor, remember


def use(tenant: Tenant, policy: SecretPolicy) -> Tenant:
    return Tenant(tenant.settings.model_copy(update={"secrets": policy}), tenant.name)


def test_a_link_shows_the_machine_and_a_key_the_tenant_alone(site: Site) -> None:
    tenant, key = site.new_tenant("uma")
    other, _ = site.new_tenant("vera")
    by_link, by_key = site.visitor(tenant), site.visitor()
    by_key.log_in("uma", key)
    whole, own = by_link.get("/health").text, by_key.get("/health").text
    for part in ("Tenants of this machine", "vera", "MEMORY_DATA_DIR", str(site.settings.data_dir)):
        assert part in whole
        assert part not in own
    for path in ("/health/mend", "/health/keys", "/health/secrets"):
        refused = by_key.post(path)
        assert (refused.status_code, "memory ui" in refused.text) == (404, True)
    assert len(KeyStore(tenant.state).list()) == len(KeyStore(other.state).list()) == 1


def test_a_key_is_shown_once_and_revoked(tenant: Tenant, visitor: Visitor, site: Site) -> None:
    visitor.get("/health")
    made = visitor.post("/health/keys", description="laptop & <phone>")
    found = re.search(r"shown only now: (\S+?)</p>", made.text)
    assert found
    assert "laptop &amp; &lt;phone&gt;" in made.text
    assert found[1] not in visitor.get("/health").text
    other = site.visitor()
    assert other.log_in(tenant.name, found[1]).url.path == "/ui/"
    visitor.post(f"/health/keys/{found[1].split('_')[1]}/revoke")
    assert other.get("/search").url.path == "/ui/login"
    assert visitor.post("/health/keys/nothing/revoke").status_code == 404


def test_a_fault_is_told_and_mended(tenant: Tenant, visitor: Visitor) -> None:
    remember(tenant, "Alice moved the export.")
    whole = visitor.post("/health/mend").text
    assert ">Note</strong>" in whole
    assert "Mend what needs no choice" not in whole
    tenant.folder.chmod(0o755)
    found = visitor.get("/health").text
    assert "Fault" in found
    assert "Mend what needs no choice" in found
    assert "Mended" in visitor.post("/health/mend").text
    assert tenant.folder.stat().st_mode & 0o777 == 0o700


def test_backups_of_the_tenant_are_listed(tenant: Tenant, visitor: Visitor, tmp_path: Path) -> None:
    remember(tenant, "Alice moved the export.")
    assert "None was taken" in visitor.get("/health").text
    backup(tenant, str(tmp_path / "stick"))
    page = visitor.get("/health").text
    assert str(tmp_path / "stick") in page
    assert re.search(r"<li>[^<]*: 1 memory, [\d.]+ \w?B</li>", page)
    (tmp_path / "stick").rename(tmp_path / "drawer")
    assert '<p class="fault">It cannot be found' in visitor.get("/health").text


def test_stored_secrets_are_found_and_masked(tenant: Tenant, visitor: Visitor) -> None:
    assert "None." in visitor.get("/health/secrets").text
    number = remember(use(tenant, SecretPolicy.ALLOW), f"The admin password is {PASSWORD}")
    page = visitor.get("/health/secrets").text
    assert PASSWORD not in page
    assert f"Memory {number}" in page
    assert " masked; " in visitor.post("/health/secrets").text
    assert PASSWORD not in use(tenant, SecretPolicy.ALLOW).memories.get([number])[0].content
