"""`memory tenant` and `memory key`: tenants, and their keys for HTTP."""

from typing import TYPE_CHECKING

import click

from memory_assets import operations
from memory_assets.cli.command import command, existing_tenant, open_tenant, print_answer, say

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant


@click.group(epilog="Example: memory tenant create claude --with-key")
def tenant() -> None:
    """Create, list and delete tenants. Each has its own memories, which no other tenant's key opens."""


@command(
    "memory tenant create claude --with-key",
    group=tenant,
    tenant=click.Argument(["tenant"], metavar="NAME", callback=open_tenant),
)
@click.option("--with-key", is_flag=True, help="Also create a key, and show it once.")
def create(tenant: "Tenant", with_key: bool) -> "Answer":
    """Create a tenant."""
    return operations.tenants.create(tenant, with_key=with_key)


@command(
    "memory tenant list --json", group=tenant, name="list", tenant=click.Option(["--tenant"], hidden=True, callback=open_tenant)
)
def list_tenants(tenant: "Tenant") -> "Answer":
    """List the tenants."""
    return operations.tenants.list_tenants(tenant.settings)


@command(
    "memory tenant delete claude --yes", group=tenant, tenant=click.Argument(["tenant"], metavar="NAME", callback=existing_tenant)
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(tenant: "Tenant", yes: bool) -> "Answer":
    """Delete a tenant with its memories and keys. Only a backup brings it back."""
    if not yes:
        click.confirm(f"{operations.tenants.view_tenant(tenant).text()}\nDelete it for good?", abort=True)
    return operations.tenants.delete(tenant)


@click.group(epilog="Example: memory key create 'laptop' --tenant claude")
def key() -> None:
    """Create, list and revoke the keys that open one tenant over HTTP."""


@command("memory key create 'laptop' --tenant claude", group=key, name="create", prints=True)
@click.argument("description", default="")
def create_key(tenant: "Tenant", description: str, as_json: bool) -> None:
    """Create a key. It is shown once; the store keeps only its digest."""
    made = operations.tenants.create_key(tenant, description)
    print_answer(made, tenant, as_json=as_json)
    if not as_json:
        say(f"Key {made.id} opens tenant {made.tenant}; it is shown only now.", err=True)


@command("memory key list --tenant claude", group=key, name="list")
def list_keys(tenant: "Tenant") -> "Answer":
    """List a tenant's keys, without their secrets."""
    return operations.tenants.list_keys(tenant)


@command("memory key revoke 3f9c0a1b2d4e --tenant claude", group=key)
@click.argument("key_id", metavar="ID")
def revoke(tenant: "Tenant", key_id: str) -> "Answer":
    """Revoke a key; a running service refuses it from the next request on."""
    return operations.tenants.revoke_key(tenant, key_id)
