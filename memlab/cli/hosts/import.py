"""`memlab hosts import`."""

from pathlib import Path

import click

from memlab.cli._options import FileName, echo, json_option, store_path


@click.command()
@click.argument("file", type=FileName(allow_dash=True, path_type=Path))
@click.option(
    "--host",
    help="Name of the host that measured the runs; runs that it imported keep their hosts' names.",
)
@click.option(
    "--partial", is_flag=True, help="Import the rows that precede the end of a truncated file."
)
@json_option
def command(file: Path, host: str | None, partial: bool, as_json: bool) -> None:
    """Import the runs of other hosts from FILE: rows that `sweep --jsonl` or `export --format rows`
    printed (- is standard input), or another results file. Rows that this store has are skipped, so
    that a file can be imported twice. A damaged file changes nothing.

    \b
    memlab hosts import rows.jsonl
    memlab hosts import results-of-b.db --host b
    ssh b memlab export all --format rows | memlab hosts import - --host b
    """
    import sys

    from memlab.cli import _hosts
    from memlab.errors import BadExport
    from memlab.store import Store, default_path, rows, travel

    if host is not None and not rows.host_name(host):
        raise click.UsageError(f"--host {host!r} is not the name of a host: letters, digits, .:@_-")
    path = store_path() or default_path()
    try:  # before the store is open: to close its own file would give up its locks
        is_store = str(file) != "-" and travel.is_store(file)
    except OSError as error:
        raise BadExport(f"cannot read {file}: {error.strerror}") from None
    if is_store and path.exists() and file.samefile(path):
        raise BadExport(f"{file} is the store itself: what would be imported is there")
    with Store(path, create=True) as opened:
        try:
            if str(file) == "-":
                stream = sys.stdin.buffer
                arrived = travel.take_in(opened, stream, "standard input", host, partial=partial)
            elif is_store:
                arrived = travel.take_store_in(opened, file, host)
            else:
                with file.open("rb") as source:
                    arrived = travel.take_in(opened, source, str(file), host, partial=partial)
        except OSError as error:
            raise BadExport(f"cannot read {file}: {error.strerror}") from None
        result = _hosts.by_host(opened, arrived)
    if arrived.own_names:
        names = ", ".join(arrived.own_names)
        echo(f"memlab: --host {host} names none of its runs of {names}: they keep theirs", err=True)
    _hosts.print_results(result, path, as_json=as_json)
