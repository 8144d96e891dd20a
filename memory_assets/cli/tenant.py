"""`memory tenant`."""

import click

from memory_assets.cli.output import print_answer

_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group("tenant", epilog="Example: memory tenant create claude --with-key")
def tenant() -> None:
    """Create, list and delete tenants: each has its own memories, which nobody else's key opens."""


@tenant.command("create", epilog="Example: memory tenant create claude --with-key")
@click.argument("name")
@click.option("--with-key", is_flag=True, help="Make a first key for it, and show it once.")
@_json_option
def create(name: str, with_key: bool, as_json: bool) -> None:
    """Make room for a new tenant."""
    from memory_assets.operations import tenants
    from memory_assets.settings import load_settings
    from memory_assets.tenants import Tenant

    tenant = Tenant(load_settings(), name)
    print_answer(tenants.create(tenant, with_key=with_key), tenant, as_json=as_json)


@tenant.command("list", epilog="Example: memory tenant list --json")
@_json_option
def list_tenants(as_json: bool) -> None:
    """List the tenants."""
    from memory_assets.operations import tenants
    from memory_assets.settings import load_settings
    from memory_assets.tenants import Tenant

    settings = load_settings()
    print_answer(tenants.list_tenants(settings), Tenant(settings), as_json=as_json)


@tenant.command("delete", epilog="Example: memory tenant delete claude --yes")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete a tenant with its memories and keys. There is no way back but a backup (`memory export`)."""
    from memory_assets.operations import tenants
    from memory_assets.settings import load_settings
    from memory_assets.tenants import Tenant

    tenant = Tenant(load_settings(), name)
    tenant.must_exist()
    if not yes:
        click.confirm(f"{tenants.look_at(tenant).text()}\nDelete it for good?", abort=True)
    deleted = tenants.delete(tenant)
    print_answer(deleted, tenant, as_json=as_json)
