"""Make the memory known to Claude Code, or take it out again."""

from memory_assets.install.claude_code import BACKUP, Change, install, plugin_folder, remove
from memory_assets.operations.answers import Answer, LocalTime

_OUTCOMES = {
    "write": "written",
    "keep": "is so already",
    "copy": "written; your version is kept beside it as .yours",
    "merge": f"statusLine added, all else as it was; a file that was there is kept beside it as {BACKUP}",
    "unmerge": "statusLine taken out, all else as it is",
    "delete": "deleted",
    "leave": "left, because you changed it",
}


class Installed(Answer):
    """What was done, or would be."""

    folder: str
    dry_run: bool
    removed: bool
    changes: tuple[Change, ...]

    def text(self, local: LocalTime) -> str:
        if not self.changes:
            return f"There is no plugin in {self.folder}."
        lines = [f"  {change.path}: {_OUTCOMES[change.action]}" for change in self.changes]
        if self.dry_run:
            return "\n".join(["Nothing was changed. This would be done:", *lines])
        if self.removed:
            return "\n".join(["The plugin is taken out; sessions that begin from now on do without it.", *lines])
        return "\n".join(["The plugin is in place; it is loaded when a session begins, or by /reload-plugins.", *lines, _NEXT])


_NEXT = "In Claude Code: /memory:remember, /memory:recall, /memory:learn. `memory session-start --off` silences it in a project."


def install_claude_code(tenant: str | None, *, status_line: bool, take_out: bool, dry_run: bool) -> Installed:
    """Put the plugin where Claude Code loads it, or take it out.

    `tenant` None means that of the settings. `status_line` gives the user's settings a status line too, unless they have one.
    """
    folder = plugin_folder()
    changes = remove(folder, dry_run=dry_run) if take_out else install(folder, tenant, status_line=status_line, dry_run=dry_run)
    shown = tuple(Change(each.action, each.path.relative_to(folder.parents[1])) for each in changes)
    return Installed(folder=str(folder), dry_run=dry_run, removed=take_out, changes=shown)
