"""memlab plot: a stored run as a figure."""

from pathlib import Path

import click

from memlab.cli._options import (
    echo_json,
    example_option,
    json_option,
    output_folder,
    run_argument,
    store_option,
)


@click.command(short_help="Draw a stored run.")
@run_argument
@example_option
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    help="A folder, or a file ending in .svg, .png or .pdf.",
)
@store_option
@json_option
def command(
    run: str, example: bool, output: Path | None, store: Path | None, as_json: bool
) -> None:
    """Draw RUN's figures, with a JSON file beside it that names the samples behind each mark."""
    from memlab import api
    from memlab.present import figures

    loaded = api.load(run, store=store, example=example)
    if output and output.suffix:
        if output.suffix[1:] not in figures.FORMATS:
            good = ", ".join(f".{name}" for name in figures.FORMATS)
            raise click.UsageError(f"-o {output}: a figure ends in {good}")
        files = figures.save(loaded, output.parent, [output.suffix[1:]], output.stem)
    else:
        files = figures.save(loaded, output_folder(output, store))
    if as_json:
        echo_json({"run": loaded.id, "files": [str(path) for path in files]})
        return
    for path in files:
        click.echo(path)
