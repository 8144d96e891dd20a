"""What the next session of Claude Code is told at its start, and which memories it is not told."""

from pydantic import Field

from memory_assets.display import counted
from memory_assets.operations.answers import Answer, LocalTime, MemoryView, View, listed
from memory_assets.operations.fields import Name
from memory_assets.operations.given import find_memory
from memory_assets.settings import origins
from memory_assets.tenants import Tenant


class LineView(View):
    """A memory as a line."""

    id: int
    text: str
    tokens: int
    kind: str


class SectionView(View):
    """A heading with its lines."""

    heading: str
    told: tuple[LineView, ...]
    left_out: tuple[LineView, ...] = Field(description="Lines without room.")


class SessionPreview(Answer):
    """What a session is told that starts now."""

    project: str
    is_silent: bool = Field(description="Whether nothing is told.")
    silenced_by: str = Field(description="What wants nothing told, and what undoes it, as a sentence; empty if it is not silent.")
    tokens: int = Field(description="Of all lines, without headings.")
    most_tokens: int = Field(description="Of the whole text, as MEMORY_SESSION_START_TOKENS says.")
    sections: tuple[SectionView, ...]
    switched_off: tuple[MemoryView, ...] = Field(description="Memories that the user wants no session to begin with.")

    def text(self, local: LocalTime) -> str:
        if self.is_silent:
            return self.silenced_by
        lines = [line for each in self.sections if each.told for line in (each.heading, *(told.text for told in each.told))]
        left_out = sum(len(each.left_out) for each in self.sections)
        lines += [f"{counted(left_out, 'line has', 'lines have')} no room."] if left_out else []
        lines += [memory.entry(local, "switched off: ") for memory in self.switched_off]
        return listed(lines) or "Nothing is known that fits; `memory run` writes what sessions are told."


class ToldAtStart(Answer):
    """Whether sessions begin with a memory."""

    memory: MemoryView
    told: bool

    def text(self, local: LocalTime) -> str:
        return f"{self.memory.name}: {'told again where it fits' if self.told else 'no session begins with it from now on'}."


def preview(tenant: Tenant, project: Name = "") -> SessionPreview:
    """What a session in a project, as memories name it, is told at its start; without one, a session in no project."""
    from memory_assets.learn.brief import NAME, parse_brief
    from memory_assets.learn.briefing import read_untold
    from memory_assets.learn.session_start import is_quiet, preview_lines
    from memory_assets.sources.projects import Project

    here = Project.of(project) if project else None
    settings, brief = tenant.settings, parse_brief(tenant.state.get(NAME))
    nudge_from = settings.nudge_from if tenant.is_sources_tenant else None
    sections = tuple(
        SectionView(heading=heading, told=tuple(map(LineView.of, told)), left_out=tuple(map(LineView.of, left_out)))
        for heading, told, left_out in preview_lines(brief, tenant.folder, here, settings.session_start_tokens, nudge_from)
    )
    untold = read_untold(tenant.state)
    silenced_by = ""
    if settings.session_start == "off":
        setting = origins(settings)["session_start"]
        silenced_by = f"Sessions are told nothing, because {setting.name} is off in {setting.place}; set it to on."
    elif here and is_quiet(tenant.folder, here):
        off = "`memory session-start --off` says so"
        silenced_by = f"Sessions in {here.folder} are told nothing, because {off}; call `memory session-start --on` there."
    return SessionPreview(
        project=project,
        is_silent=bool(silenced_by),
        silenced_by=silenced_by,
        tokens=sum(line.tokens for each in sections for line in each.told),
        most_tokens=settings.session_start_tokens,
        sections=sections,
        switched_off=tuple(map(MemoryView.of, tenant.memories.get(sorted(untold)))) if untold else (),
    )


def tell_at_start(tenant: Tenant, reference: str | int, *, told: bool) -> ToldAtStart:
    """Let sessions begin with a memory where it fits, or without it. It stays in recall either way."""
    from memory_assets.learn.briefing import set_told

    memory = find_memory(tenant, reference)
    set_told(tenant, memory.id, told=told)
    return ToldAtStart(memory=MemoryView.of(memory), told=told)
