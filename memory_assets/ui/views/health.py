"""Views of settings and health: faults with their remedies, refused files, secrets, keys, tenants and backups.

Facts about the machine are shown only in sessions opened with a one-time link, whose users may run commands on it.
"""

from starlette.responses import Response

from memory_assets import operations
from memory_assets.display import counted
from memory_assets.errors import MemoryAssetsError, NotFoundError
from memory_assets.operations.backup import BackupView
from memory_assets.ui.page import Page, change, view


@view("/health", work="write")
def health(page: Page) -> Response:
    """Show everything except the slow search for secrets."""
    tenant, of_machine = page.tenant, not page.session.key
    status = operations.status.status(tenant)
    return page.render(
        "health.html",
        diagnosis=operations.health.diagnose(tenant, with_settings=True) if of_machine else None,
        refusals=[each for each in status.refusals if not each.passed_over],
        masked=status.masked,
        keys=operations.tenants.list_keys(tenant).keys,
        tenants=operations.tenants.list_tenants(tenant.settings).tenants if of_machine else (),
        backups=_backups(page) if of_machine else (),
        format_bytes=operations.backup.format_bytes,
    )


@view("/health/secrets", work="write")
def secrets(page: Page) -> Response:
    return page.render("secrets.html", found=operations.scan.scan(page.tenant))


@change("/health/secrets")
def mask(page: Page) -> Response:
    """Mask the secrets found. The answer names every file in the machine's data folder that still holds one."""
    _require_machine_session(page)
    done = operations.scan.mend(page.tenant)
    return page.redirect("/health/secrets", done.text(page.local))


@change("/health/mend")
def mend(page: Page) -> Response:
    _require_machine_session(page)
    broken = sum(each.level == "fault" for each in operations.health.diagnose(page.tenant, mend=True).findings)
    left = counted(broken, "fault is", "faults are") if broken else "no fault is"
    return page.redirect("/health", f"Mended what needs no choice; {left} left.")


@change("/health/keys")
def create_key(page: Page) -> Response:
    _require_machine_session(page)
    made = operations.tenants.create_key(page.tenant, page.text("description"))
    return page.redirect("/health", f"The new key, which is shown only now: {made.key}")


@change("/health/keys/{key}/revoke")
def revoke_key(page: Page) -> Response:
    """Revoke a key and end the sessions that it opened."""
    done = operations.tenants.revoke_key(page.tenant, page.path["key"])
    return page.redirect("/health", done.text(page.local))


def _require_machine_session(page: Page) -> None:
    if page.session.key:
        raise NotFoundError("This is for sessions that `memory ui` opened; run that on the machine that keeps the memory.")


def _backups(page: Page) -> list[tuple[str, str, "list[BackupView]"]]:
    """Return each place of backups with the reason why it cannot be read, or the tenant's backups in it, newest first."""
    tenant, found = page.tenant, []
    for place in operations.backup.places_of(tenant):
        try:
            listed = operations.backup.list_backups(tenant.settings, place).backups
            own = sorted((each for each in listed if each.tenant == tenant.name), key=lambda each: each.taken_at, reverse=True)
            found.append((place, "" if listed else "It cannot be found, or holds no backup.", own))
        except MemoryAssetsError as error:
            found.append((place, str(error), []))
    return found
