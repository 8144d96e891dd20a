"""Preview the text at the start of Claude Code's next session, and exclude memories from it."""

from pydantic import Field

from memory_assets.display import counted
from memory_assets.learn.brief import NAME, parse_brief
from memory_assets.learn.briefing import read_untold, set_told
from memory_assets.learn.session_start import is_quiet, preview_lines
from memory_assets.operations.answers import Answer, LocalTime, MemoryView, View
from memory_assets.operations.arguments import find_memory
from memory_assets.operations.fields import Name
from memory_assets.settings import origins
from memory_assets.sources.projects import Project
from memory_assets.tenants import Tenant


class LineView(View):
    """A line about one memory."""

    id: int
    text: str
    tokens: int
    kind: str


class SectionView(View):
    """A heading and its lines."""

    heading: str
    told: tuple[LineView, ...]
    left_out: tuple[LineView, ...] = Field(description="Lines that do not fit.")


class SessionPreview(Answer):
    """The text that a session starting now would get."""

    project: str
    is_silent: bool = Field(description="Whether the session gets no text.")
    silenced_by: str = Field(description="Why it gets no text and how to change that, as a sentence; empty if it gets one.")
    tokens: int = Field(description="Tokens of all lines, without headings.")
    most_tokens: int = Field(description="Limit of the whole text: MEMORY_SESSION_START_TOKENS.")
    sections: tuple[SectionView, ...]
    switched_off: tuple[MemoryView, ...] = Field(description="Memories that the user excluded.")

    def text(self, local: LocalTime) -> str:
        if self.is_silent:
            return self.silenced_by
        lines = [line for each in self.sections if each.told for line in (each.heading, *(told.text for told in each.told))]
        left_out = sum(len(each.left_out) for each in self.sections)
        lines += [f"{counted(left_out, 'line does', 'lines do')} not fit."] if left_out else []
        lines += [memory.entry(local, "switched off: ") for memory in self.switched_off]
        return "\n".join(lines) or f"Nothing is known that fits; {local.command('run')} writes what sessions are told."


class ToldAtStart(Answer):
    """Whether the text at a session's start may contain a memory."""

    memory: MemoryView
    told: bool

    def text(self, local: LocalTime) -> str:
        return f"{self.memory.name}: {'told again where it fits' if self.told else 'no session begins with it from now on'}."


def preview(tenant: Tenant, project: Name = "") -> SessionPreview:
    """Preview the start of a session in a project, named as in memories; without one, of a session outside all projects."""
    return preview_in(tenant, Project.of(project) if project else None)


def preview_in(tenant: Tenant, here: Project | None) -> SessionPreview:
    """Preview the start of a session in a project of this machine; None stands for outside all projects."""
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
        project=here.folder if here else "",
        is_silent=bool(silenced_by),
        silenced_by=silenced_by,
        tokens=sum(line.tokens for each in sections for line in each.told),
        most_tokens=settings.session_start_tokens,
        sections=sections,
        switched_off=tuple(map(MemoryView.of, tenant.memories.get(sorted(untold)))) if untold else (),
    )


def tell_at_start(tenant: Tenant, reference: str | int, *, told: bool) -> ToldAtStart:
    """Allow or exclude a memory at the start of sessions. It stays in recall either way."""
    memory = find_memory(tenant, reference)
    set_told(tenant, memory.id, told=told)
    return ToldAtStart(memory=MemoryView.of(memory), told=told)
