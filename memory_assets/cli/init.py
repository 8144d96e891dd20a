"""`memory init`."""

from typing import TYPE_CHECKING

import click

from memory_assets.cli.options import common_options, here_option, max_tokens_option, timezone_option
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.sources.projects import Project


@click.command("init", epilog="Example: memory init --timezone Europe/Berlin")
@here_option
@max_tokens_option
@timezone_option
@common_options
def command(here: "Project | None", max_tokens: int | None, timezone: str | None, tenant: Tenant, as_json: bool) -> None:
    """Begin a session: the time, and what was remembered in the last day."""
    from memory_assets.operations.recent import init

    print_answer(init(tenant, here), tenant, timezone, as_json=as_json, max_tokens=max_tokens)
