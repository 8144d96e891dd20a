"""`memory key`."""

from dataclasses import asdict

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_json, say
from memory_assets.errors import NotFoundError
from memory_assets.stores.keys import Key, KeyStore
from memory_assets.tenants import Tenant


@click.group("key", epilog="Example: memory key create 'laptop' --tenant claude")
def command() -> None:
    """Create, list and revoke the keys that open one tenant over HTTP."""


@command.command("create", epilog="Example: memory key create 'laptop' --tenant claude")
@click.argument("description", default="")
@common_options
def create(description: str, tenant: Tenant, as_json: bool) -> None:
    """Make a key. It is shown once: only a digest of it is kept."""
    known, key = _keys(tenant).create(description)
    if as_json:
        print_json({"id": known.id, "tenant": tenant.name, "key": key, "description": known.description})
    else:
        say(key)
        say(f"Key {known.id} opens tenant {tenant.name}; it is shown only now.", err=True)


@command.command("list", epilog="Example: memory key list --tenant claude")
@common_options
def list_keys(tenant: Tenant, as_json: bool) -> None:
    """List a tenant's keys, without their secrets."""
    found = _keys(tenant).list()
    if as_json:
        print_json({"tenant": tenant.name, "keys": [asdict(key) | {"active": key.active} for key in found]})
        return
    for key in found:
        say(f"{key.id}  {key.created_at:%Y-%m-%d}  {_state(key):<18}  {key.description}")
    if not found:
        say(f"Tenant {tenant.name} has no key; `memory key create --tenant {tenant.name}` makes one.")


@command.command("revoke", epilog="Example: memory key revoke 3f9c0a1b2d4e --tenant claude")
@click.argument("key_id", metavar="ID")
@common_options
def revoke(key_id: str, tenant: Tenant, as_json: bool) -> None:
    """End a key; a running service refuses it from its next request on."""
    revoked = _keys(tenant).revoke(key_id)
    if as_json:
        print_json(asdict(revoked) | {"active": revoked.active})
    else:
        say(f"Revoked key {revoked.id}")


def _state(key: Key) -> str:
    return "active" if key.revoked_at is None else f"revoked {key.revoked_at:%Y-%m-%d}"


def _keys(tenant: Tenant) -> KeyStore:
    if not tenant.exists:
        raise NotFoundError(f"There is no tenant {tenant.name!r}; `memory tenant create {tenant.name}` makes it.")
    return KeyStore(tenant.folder)
