"""`memlab completion`."""

import click
from click.shell_completion import get_completion_class

# click's own script for bash takes words as bash cuts them, at = and : too (COMP_WORDBREAKS), and
# puts a blank behind every word. This one takes the line as it stands, offers what bash is to put
# in the place of the last piece, and leaves a factor that awaits its levels without a blank.
_BASH = """\
_memlab_completion() {
    local IFS=$' \\t\\n' line="${COMP_LINE:0:COMP_POINT}" words word before="" type value
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    word="${words[-1]}"
    [[ $word == *[=:]* ]] && before="${word%"${word##*[=:]}"}"
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                COMPREPLY+=("${value#"$before"}")
                [[ $value == *= ]] && compopt -o nospace
                ;;
        esac
    done < <(COMP_WORDS="$line" COMP_CWORD=$((${#words[@]} - 1)) \\
        _MEMLAB_COMPLETE=bash_complete "$1")
    return 0
}
complete -o nosort -F _memlab_completion memlab"""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
def command(shell: str) -> None:
    """Print the script with which SHELL completes commands, experiments, levels and runs.

    \b
    bash: eval "$(memlab completion bash)"
    zsh:  eval "$(memlab completion zsh)"
    fish: memlab completion fish | source
    """
    from memlab.cli import cli

    if shell == "bash":
        click.echo(_BASH)
        return
    result = get_completion_class(shell)
    if result is None:
        raise click.UsageError(f"this click cannot complete in {shell}; upgrade click")
    script = result(cli, {}, "memlab", "_MEMLAB_COMPLETE")
    click.echo(script.source_template % script.source_vars())
