"""`memory session-end`, a hook: it notes what the user said that should last."""

import json
from pathlib import Path

import click

from memory_assets.cli.hooks import hook_input, never_in_the_way
from memory_assets.cli.options import chosen_tenant


@click.command(
    "session-end", epilog="Example: memory session-end < hook.json   (Claude Code calls it; `memory noted` shows the outcome)"
)
@click.option("--tenant", metavar="NAME", help="Whose memory; default: MEMORY_TENANT, else main.")
def session_end(tenant: str | None) -> None:
    """Note what the user said in a session that should last: a hook for PreCompact and SessionEnd. Nothing is stored yet.

    It is silent, also where it fails; what failed is in the file hooks.log of the data folder.
    """
    from memory_assets.learn.noted import find_sentences, note
    from memory_assets.places import read_places
    from memory_assets.sources.projects import project_of

    places = read_places(chosen_tenant(tenant))
    with never_in_the_way(places.data_dir):
        given = json.loads(hook_input() or "{}")
        if places.session_start == "off" or "transcript_path" not in given:
            return
        project = project_of(Path(given.get("cwd") or "."))
        folder = project.folder if project else ""
        note(places.folder, find_sentences(Path(given["transcript_path"]).expanduser(), folder, str(given.get("session_id", ""))))
