"""memlab completion: the script that completes memlab's words in a shell."""

import click
from click.shell_completion import get_completion_class


@click.command(short_help="Print a shell's completion script.")
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
def command(shell: str) -> None:
    """Print the script that completes commands, experiments, factors, levels and runs in SHELL.

    \b
    bash: eval "$(memlab completion bash)"
    zsh:  eval "$(memlab completion zsh)"
    fish: memlab completion fish | source
    """
    from memlab.cli import cli

    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"this click cannot complete in {shell}; upgrade click")
    script = made(cli, {}, "memlab", "_MEMLAB_COMPLETE")
    click.echo(script.source_template % script.source_vars())
