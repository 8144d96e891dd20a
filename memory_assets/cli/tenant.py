"""`memory tenant`."""

import click

from memory_assets.cli.output import print_json, say


@click.group("tenant", epilog="Example: memory tenant create claude --with-key")
def command() -> None:
    """Create, list and delete tenants: each has its own memories, which nobody else's key opens."""


@command.command("create", epilog="Example: memory tenant create claude --with-key")
@click.argument("name")
@click.option("--with-key", is_flag=True, help="Make a first key for it, and show it once.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def create(name: str, with_key: bool, as_json: bool) -> None:
    """Make room for a new tenant."""
    from memory_assets.settings import load_settings
    from memory_assets.stores.keys import KeyStore
    from memory_assets.tenants import Tenant, create_tenant

    tenant = Tenant(load_settings(), name)
    create_tenant(tenant)
    key = KeyStore(tenant.folder).create("first key")[1] if with_key else None
    if as_json:
        print_json({"tenant": tenant.name, **({"key": key} if key else {})})
        return
    say(f"Created tenant {tenant.name}")
    if key:
        say(f"Its key, which is shown only now: {key}")


@command.command("list", epilog="Example: memory tenant list --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_tenants(as_json: bool) -> None:
    """List the tenants."""
    from memory_assets.settings import load_settings
    from memory_assets.stores.keys import KeyStore
    from memory_assets.tenants import Tenant, tenant_names

    settings = load_settings()
    found = [
        {
            "tenant": name,
            "memories": len(Tenant(settings, name).memories),
            "keys": sum(key.active for key in KeyStore(settings.tenant_dir(name)).list()),
        }
        for name in tenant_names(settings)
    ]
    if as_json:
        print_json({"tenants": found})
        return
    for each in found:
        say(f"{each['tenant']:<24} {each['memories']} memories, {each['keys']} keys")
    if not found:
        say("There is no tenant yet; `memory tenant create NAME` makes one.")


@command.command("delete", epilog="Example: memory tenant delete claude --yes")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete a tenant with its memories and keys. There is no way back but a backup (`memory export`)."""
    from memory_assets.defs.runner import forget_everywhere
    from memory_assets.errors import NotFoundError
    from memory_assets.settings import load_settings
    from memory_assets.tenants import Tenant, delete_tenant

    tenant = Tenant(load_settings(), name)
    if not tenant.exists:
        raise NotFoundError(f"There is no tenant {name!r}; `memory tenant list` shows those that exist.")
    count = len(tenant.memories)
    if not yes:
        click.confirm(f"Delete tenant {tenant.name} with {count} memories for good?", abort=True)
    delete_tenant(tenant)
    forget_everywhere(tenant.settings, tenant.name)
    if as_json:
        print_json({"tenant": tenant.name, "deleted_memories": count})
    else:
        say(f"Deleted tenant {tenant.name} with {count} memories")
