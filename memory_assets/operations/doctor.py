"""What is misconfigured or broken, what mends it, and on demand that mend."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field, SecretStr

from memory_assets.operations.answers import Answer, LocalTime, View, listed

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

_MARKS = {"fault": "FAIL", "note": "note", "ok": "ok"}
"""By level, in the order in which findings are told."""


class FindingView(View):
    """One thing that was looked at."""

    level: Literal["fault", "note", "ok"]
    what: str
    mend: str = Field(description="The one act that mends it; empty where there is nothing to mend.")


class SettingView(View):
    """A setting as it is set; of what is secret, only whether it is."""

    model_config = ConfigDict(serialize_by_alias=True)

    value: str
    place: str = Field(serialization_alias="from", description="The environment, a file, the command line, or default.")


class Diagnosis(Answer):
    """All that was looked at, what is broken first."""

    findings: tuple[FindingView, ...]
    settings: dict[str, SettingView] = Field(description="By the name that sets each; empty unless asked for.")

    @property
    def is_failure(self) -> bool:
        return any(each.level == "fault" for each in self.findings)

    def text(self, local: LocalTime) -> str:
        lines: list[str] = []
        for each in self.findings:
            lines.append(f"{_MARKS[each.level]:<4}  {each.what}")
            lines += [f"{'':6}mend: {each.mend}"] if each.mend else []
        width = max(map(len, self.settings), default=0)
        lines += [f"{name:<{width}}  {each.value or '-'}  ({each.place})" for name, each in self.settings.items()]
        return listed(lines)


def diagnose(tenant: "Tenant", *, mend: bool = False, with_settings: bool = False) -> Diagnosis:
    """Look at settings, sources, language room and stores of a tenant.

    `mend` repairs what can be repaired without a choice of the user's, then looks again.

    Raises:
        StoreError: a repair failed.
    """
    from memory_assets.doctor import examine

    findings = examine(tenant)
    if mend and (repairs := [finding.repair for finding in findings if finding.repair]):
        for repair in repairs:
            repair()
        findings = examine(tenant)
    order = list(_MARKS)
    in_order = sorted(map(FindingView.model_validate, findings), key=lambda finding: order.index(finding.level))
    return Diagnosis(findings=tuple(in_order), settings=_settings(tenant) if with_settings else {})


def _settings(tenant: "Tenant") -> dict[str, SettingView]:
    from memory_assets.settings import origins

    return {
        origin.name: SettingView(value=_shown(getattr(tenant.settings, field)), place=origin.place)
        for field, origin in origins(tenant.settings).items()
    }


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "set" if isinstance(value, SecretStr) else "" if value is None else str(value)
