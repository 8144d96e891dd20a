"""Install the plugin for Claude Code, or remove it."""

from pathlib import Path

from memory_assets.install.claude_code import BACKUP, Change, install, plugin_folder, remove, unread_projects
from memory_assets.operations.answers import Answer, LocalTime

_OUTCOMES = {
    "write": "written",
    "keep": "is up to date",
    "copy": "written; your version is kept beside it as .yours",
    "merge": f"statusLine added, nothing else changed; the file as it was, if there was one, is beside it as {BACKUP}",
    "pass": "has another statusLine, which stays",
    "unmerge": "statusLine removed, nothing else changed",
    "delete": "deleted",
    "leave": "left, because you changed it",
}


class Installed(Answer):
    """What an installation or removal did, or would do."""

    folder: str
    dry_run: bool
    removed: bool
    changes: tuple[Change, ...]
    unread: str = ""
    """Claude Code's project folders, if CLAUDE_CONFIG_DIR moves them elsewhere than to those that are read."""

    def text(self, local: LocalTime) -> str:
        if not self.changes:
            return f"There is no plugin in {self.folder}."
        lines = [f"  {change.path}: {_OUTCOMES[change.action]}" for change in self.changes]
        if self.unread and not self.removed:
            lines.append(
                f"Memory files in {self.unread} are not read; set MEMORY_CLAUDE_PROJECTS_DIR to that folder in memory.toml."
            )
        if self.dry_run:
            return "\n".join(["Nothing was changed. This would be done:", *lines])
        if self.removed:
            return "\n".join(["The plugin is removed; sessions that begin from now on do without it.", *lines])
        return "\n".join(
            ["The plugin is installed; Claude Code loads it with the next session or /reload-plugins.", *lines, _NEXT]
        )


_NEXT = "In Claude Code: /memory:remember, /memory:recall, /memory:learn. `memory session-start --off` silences it in a project."


def install_claude_code(tenant: str | None, projects_dir: Path, *, status_line: bool, take_out: bool, dry_run: bool) -> Installed:
    """Install the plugin into Claude Code's folder, or remove it.

    `tenant` defaults to the settings' tenant; `projects_dir` holds the project folders that are read. `status_line` adds a status line to
    the user's settings, unless they have one.
    """
    folder = plugin_folder()
    changes = remove(folder, dry_run=dry_run) if take_out else install(folder, tenant, status_line=status_line, dry_run=dry_run)
    shown = tuple(Change(each.action, each.path.relative_to(folder.parents[1])) for each in changes)
    unread = str(unread_projects(projects_dir) or "")
    return Installed(folder=str(folder), dry_run=dry_run, removed=take_out, changes=shown, unread=unread)
