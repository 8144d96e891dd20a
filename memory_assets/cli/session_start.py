"""`memory session-start`, a hook: it must be quick, and must never be in the way."""

import sys

import click

from memory_assets.cli.hooks import hook_input, never_in_the_way
from memory_assets.cli.options import chosen_tenant
from memory_assets.cli.output import say


@click.command("session-start", epilog="Example: memory session-start   (in a project: what its next session will be told)")
@click.option("--tenant", metavar="NAME", help="Whose memory; default: MEMORY_TENANT, else main.")
@click.option("--off", "quiet", flag_value="off", help="Tell sessions in this directory's project nothing from now on.")
@click.option("--on", "quiet", flag_value="on", help="Tell them something again.")
def session_start(tenant: str | None, quiet: str | None) -> None:
    """Print what a session is told when it begins: a SessionStart hook, which reads Claude Code's JSON from standard input.

    It is silent where there is nothing to say, and where it fails; what failed is in the file hooks.log of the data folder.
    """
    from memory_assets.learn.session_start import Hook, session_start, set_quiet
    from memory_assets.places import read_places

    places = read_places(chosen_tenant(tenant))
    if quiet:
        from memory_assets.sources.projects import project_at_hand

        project = project_at_hand()
        if project is None:
            raise click.UsageError("This directory belongs to no project; go into one first.")
        set_quiet(places.folder, project, quiet=quiet == "off")
        say(f"Sessions in {project.folder} are told {'nothing' if quiet == 'off' else 'what is remembered'}.")
        return
    with never_in_the_way(places.data_dir):
        if text := session_start(places, Hook.parse(hook_input())):
            sys.stdout.write(f"{text}\n")
