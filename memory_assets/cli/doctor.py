"""`memory doctor`."""

from typing import Any

import click
from pydantic import SecretStr

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_json, say_folded
from memory_assets.doctor import Finding, examine
from memory_assets.tenants import Tenant

_LEVELS = ("fault", "note", "ok")
"""The order in which findings are told."""
_MARKS = {"ok": "ok  ", "note": "note", "fault": "FAIL"}
_COLOURS = {"ok": "green", "note": "yellow", "fault": "red"}


@click.command("doctor", epilog="Example: memory doctor --settings")
@click.option("--mend", is_flag=True, help="Repair what can be repaired without a choice of yours, then look again.")
@click.option("--settings", "with_settings", is_flag=True, help="List every setting too, as it is set, and from where.")
@common_options
@click.pass_context
def command(context: click.Context, mend: bool, with_settings: bool, tenant: Tenant, as_json: bool) -> None:
    """Check settings and stores, and say what mends them. Exits with 1 if something is broken."""
    findings = examine(tenant)
    if mend and (repairs := [finding.repair for finding in findings if finding.repair]):
        for repair in repairs:
            repair()
        findings = examine(tenant)
    findings.sort(key=lambda finding: _LEVELS.index(finding.level))
    settings = _settings(tenant) if with_settings else {}
    if as_json:
        found = [{"level": each.level, "what": each.what, "mend": each.mend} for each in findings]
        print_json({"findings": found} | ({"settings": settings} if with_settings else {}))
    else:
        for finding in findings:
            _print_finding(finding)
        width = max(map(len, settings), default=0)
        for name, setting in settings.items():
            say_folded(f"{name:<{width}}  ", f"{setting['value'] or '-'}  ({setting['from']})")
    if findings[0].level == "fault":
        context.exit(1)


def _print_finding(finding: Finding) -> None:
    say_folded(f"{_MARKS[finding.level]}  ", finding.what, fg=_COLOURS[finding.level])
    if finding.mend:
        say_folded(f"{'':6}mend: ", finding.mend)


def _settings(tenant: Tenant) -> dict[str, dict[str, str]]:
    """By the name under which each is set, or can be: its value and where that came from."""
    from memory_assets.settings import origins

    return {
        origin.name: {"value": _shown(getattr(tenant.settings, field)), "from": origin.place}
        for field, origin in origins(tenant.settings).items()
    }


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "set" if isinstance(value, SecretStr) else "" if value is None else str(value)
