"""`memory key`."""

from typing import TYPE_CHECKING

import click

from memory_assets.cli.options import answering, common_options
from memory_assets.cli.output import print_answer, say

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant


@click.group("key", epilog="Example: memory key create 'laptop' --tenant claude")
def key() -> None:
    """Create, list and revoke the keys that open one tenant over HTTP."""


@key.command("create", epilog="Example: memory key create 'laptop' --tenant claude")
@click.argument("description", default="")
@common_options
def create(description: str, tenant: "Tenant", as_json: bool) -> None:
    """Make a key. It is shown once: only a digest of it is kept."""
    from memory_assets.operations import tenants

    made = tenants.create_key(tenant, description)
    print_answer(made, tenant, as_json=as_json)
    if not as_json:
        say(f"Key {made.id} opens tenant {made.tenant}; it is shown only now.", err=True)


@key.command("list", epilog="Example: memory key list --tenant claude")
@answering()
def list_keys(tenant: "Tenant") -> "Answer":
    """List a tenant's keys, without their secrets."""
    from memory_assets.operations import tenants

    return tenants.list_keys(tenant)


@key.command("revoke", epilog="Example: memory key revoke 3f9c0a1b2d4e --tenant claude")
@click.argument("key_id", metavar="ID")
@answering()
def revoke(tenant: "Tenant", key_id: str) -> "Answer":
    """End a key; a running service refuses it from its next request on."""
    from memory_assets.operations import tenants

    return tenants.revoke_key(tenant, key_id)
