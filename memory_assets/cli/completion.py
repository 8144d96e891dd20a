"""`memory completion`."""

import click
from click.shell_completion import get_completion_class

from memory_assets.cli.output import say


@click.command(
    "completion", epilog="Example: d=~/.local/share/bash-completion/completions; mkdir -p $d; memory completion bash > $d/memory"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options of `memory` in a shell."""
    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"This release of click has no completion for {shell}.")
    say(completion(context.find_root().command, {}, "memory", "_MEMORY_COMPLETE").source())
