"""`memory key`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer, say
from memory_assets.tenants import Tenant


@click.group("key", epilog="Example: memory key create 'laptop' --tenant claude")
def command() -> None:
    """Create, list and revoke the keys that open one tenant over HTTP."""


@command.command("create", epilog="Example: memory key create 'laptop' --tenant claude")
@click.argument("description", default="")
@common_options
def create(description: str, tenant: Tenant, as_json: bool) -> None:
    """Make a key. It is shown once: only a digest of it is kept."""
    from memory_assets.operations import keys

    made = keys.create(tenant, description)
    print_answer(made, tenant, as_json=as_json)
    if not as_json:
        say(f"Key {made.id} opens tenant {made.tenant}; it is shown only now.", err=True)


@command.command("list", epilog="Example: memory key list --tenant claude")
@common_options
def list_keys(tenant: Tenant, as_json: bool) -> None:
    """List a tenant's keys, without their secrets."""
    from memory_assets.operations import keys

    print_answer(keys.list_keys(tenant), tenant, as_json=as_json)


@command.command("revoke", epilog="Example: memory key revoke 3f9c0a1b2d4e --tenant claude")
@click.argument("key_id", metavar="ID")
@common_options
def revoke(key_id: str, tenant: Tenant, as_json: bool) -> None:
    """End a key; a running service refuses it from its next request on."""
    from memory_assets.operations import keys

    print_answer(keys.revoke(tenant, key_id), tenant, as_json=as_json)
