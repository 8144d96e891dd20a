"""`memory doctor`."""

from typing import Any

import click
from pydantic import SecretStr

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_json, say
from memory_assets.doctor import Finding, examine
from memory_assets.tenants import Tenant

_MARKS = {"ok": "ok  ", "note": "note", "fault": "FAIL"}
_COLOURS = {"ok": "green", "note": "yellow", "fault": "red"}


@click.command("doctor", epilog="Example: memory doctor --json")
@click.option("--mend", is_flag=True, help="Repair what can be repaired without a choice of yours, then look again.")
@common_options
@click.pass_context
def command(context: click.Context, mend: bool, tenant: Tenant, as_json: bool) -> None:
    """Check settings and stores, and say what mends them. Exits with 1 if something is broken."""
    from memory_assets.settings import origins

    findings = examine(tenant)
    if mend and (repairs := [finding.repair for finding in findings if finding.repair]):
        for repair in repairs:
            repair()
        findings = examine(tenant)
    came_from = origins(tenant.settings)
    values: dict[str, Any] = {name: getattr(tenant.settings, name) for name in came_from}
    if as_json:
        settings = {name: {"value": _shown(values[name]), "from": origin} for name, origin in came_from.items()}
        print_json({"settings": settings, "findings": [_finding_json(finding) for finding in findings]})
    else:
        say("Settings", bold=True)
        for name, origin in came_from.items():
            say(f"  {name:<20} {_shown(values[name])}  ({origin})")
        say("Findings", bold=True)
        for finding in findings:
            say(f"  {_MARKS[finding.level]} ", nl=False, fg=_COLOURS[finding.level])
            say(finding.what)
            if finding.mend:
                say(f"       mend: {finding.mend}")
    if any(finding.level == "fault" for finding in findings):
        context.exit(1)


def _finding_json(finding: Finding) -> dict[str, str]:
    return {"level": finding.level, "what": finding.what, "mend": finding.mend}


def _shown(value: Any) -> str:
    return "set" if isinstance(value, SecretStr) else "" if value is None else str(value)
