"""Experiments outside memlab: a declaration in a Python file, its probe in a C file beside it.

The C file has the declaration's name. It is compiled with memlab's own support code and flags into
a module like memlab/_probes, in the user's cache, under the hash of all that it is made of. A run
that is read again loads its declaration from the path that it was measured by, if this user has
named that path to memlab before: a store of somebody else's starts no program.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import runpy
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import traceback
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

from memlab.errors import BadDeclaration, BadRequest, CannotRun, MemlabError
from memlab.experiment.vocabulary import Experiment
from memlab.files import folders

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_NAMED_NOW = "; a metric's floor is called baseline_loop"
_NO_EXPERIMENT = ": no EXPERIMENT = Experiment(...) in it; docs/adding.md has one"
_GIVES_ANY_NAME = {"exec", "globals", "locals", "setattr", "vars"}
_SOURCE_BYTES_MAX = 1 << 20
_ERROR = re.compile(r"^.*\berror: .*$", re.M)
_HEADER = "Python.h: No such file"


def trust(path: str) -> None:
    """Note that the user names this declaration; from now on its stored runs load it."""
    _folder_of(path, make=True)


def declare(path: str) -> Experiment:
    """The experiment that a file declares, its probe compiled. BadRequest where the file or its C
    is wrong, BadDeclaration where what it declares is; CannotRun where nothing can be compiled."""
    stamps = [_stamp(path), _stamp(f"{path[:-3]}.c")]
    return _declared(Path(path), *stamps)


def _stamp(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


@cache
def _declared(path: Path, *_: int) -> Experiment:
    """Once for each state of the two files."""
    folder = _folder_of(str(path), make=False)
    if not path.exists() and (stored := folder / "declaration.py").exists():
        result = _read(stored, folder, path.stem)
        words = f"{result.question} ({path} is gone: this is its declaration when it was last read)"
        return replace(result, question=words)
    result = _read(path, folder, path.stem)
    try:
        result.check()
    except BadDeclaration as error:
        raise BadDeclaration(f"{path}: {error}") from None
    except Exception as error:  # of a function that the file declares
        raise BadDeclaration(f"{_where(path, error)}: {type(error).__name__}: {error}") from None
    with suppress(OSError):  # for the day when the file is gone
        shutil.copyfile(path, folder / "declaration.py")
    return result


def _read(path: Path, folder: Path, stem: str) -> Experiment:
    _check_declares(path)
    source = path.with_name(f"{stem}.c")
    if not source.exists() and (folder / source.name).exists():
        source = folder / source.name
    home = _built(source, folder) if source.exists() else None
    try:
        if home:
            _take_params(home)
        result = runpy.run_path(str(path), run_name=f"memlab_outside_{stem}").get("EXPERIMENT")
    except MemlabError:
        raise
    except SyntaxError as error:
        raise BadRequest(f"{path}:{error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        now = _NAMED_NOW if "keyword argument 'floor'" in str(error) else ""
        raise BadRequest(f"{_where(path, error)}: {type(error).__name__}: {error}{now}") from None
    if not isinstance(result, Experiment):
        raise BadRequest(f"{path}{_NO_EXPERIMENT}")
    if home and result.probe != stem:
        raise BadRequest(f"{path}: its probe is {result.probe!r}; {source} is the probe {stem!r}")
    from memlab._built import HASHES

    if not home and result.probe not in HASHES:
        raise BadRequest(f"{path}: no file {source.name} beside it, and no probe {result.probe!r}")
    return replace(result, home=str(home or ""))


def _check_declares(path: Path) -> None:
    """That its source gives the name EXPERIMENT, before it runs: it may be any program."""
    _check_readable(path)
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        raise BadRequest(f"{path}:{error.lineno}: {error.msg}") from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise BadRequest(f"{path}: {type(error).__name__}: {error}") from None
    if not any(map(_may_declare, ast.walk(tree))):
        raise BadRequest(f"{path}{_NO_EXPERIMENT}")


def _may_declare(node: ast.AST) -> bool:
    """Whether it gives the name, or names that are known only when it runs."""
    if isinstance(node, ast.Name) and node.id in _GIVES_ANY_NAME:
        return True
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return (node.id if isinstance(node, ast.Name) else node.attr) == "EXPERIMENT"
    return isinstance(node, ast.alias) and (node.asname or node.name) in ("EXPERIMENT", "*")


def _where(path: Path, error: BaseException) -> str:
    """The innermost line of the file that the error passed."""
    frames = [at for at in traceback.extract_tb(error.__traceback__) if at.filename == str(path)]
    return f"{path}:{frames[-1].lineno}" if frames else str(path)


def _check_readable(path: Path) -> None:
    """A file that another user may change is nothing to run."""
    try:
        result = path.stat()
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(result.st_mode) or result.st_size > _SOURCE_BYTES_MAX:
        raise BadRequest(f"{path}: no regular file of up to 1 MiB")
    if result.st_uid not in (0, os.geteuid()) or result.st_mode & stat.S_IWOTH:
        raise BadRequest(f"{path}: another user may change it; chown it, or chmod o-w")


def _take_params(home: Path) -> None:
    """What it takes and the levels of its enums, for the declaration."""
    from memlab import _built

    built = runpy.run_path(str(home / "_built.py"))
    _built.ENUMS.update(built["ENUMS"])
    _built.PARAMS.update(built["PARAMS"])
    _built.FIELDS.update(built["FIELDS"])


def _folder_of(path: str, *, make: bool) -> Path:
    """What is kept of a declaration: builds, and copies of its files."""
    top = folders.user("cache") / "experiments"
    folder = top / hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    try:
        if make:
            top.parent.mkdir(parents=True, exist_ok=True)
            for item in (top, folder):
                item.mkdir(mode=0o700, exist_ok=True)
        for item in (top, folder):
            result = item.lstat()
            mine = stat.S_ISDIR(result.st_mode) and result.st_uid == os.geteuid()
            if not mine or result.st_mode & 0o077:
                raise CannotRun(f"{item}: not a folder that only this user may enter; remove it")
    except FileNotFoundError:
        if not Path(path).exists():
            raise BadRequest(f"{path}: the experiment is gone, and no copy is kept of it") from None
        raise BadRequest(
            f"{path}: this user has not used this experiment yet; read it, then "
            f"`memlab describe {shlex.quote(path)}`"
        ) from None
    except OSError as error:
        raise CannotRun(f"{folder}: {error.strerror}") from None
    return folder


def _built(source: Path, folder: Path) -> Path:
    """The folder with the compiled probe, made where there is none."""
    _check_readable(source)
    if not _NAME.fullmatch(source.stem):
        raise BadRequest(f"{source}: a probe is named in lower case letters, digits and _")
    sources = folders.compiled() / "probe_sources"
    from memlab import _built
    from memlab.experiments import _build_probes

    if source.stem in _built.HASHES:
        raise BadRequest(f"{source}: memlab has a probe of that name; choose another")
    compiler, version = _compiler()
    hashed = _build_probes.probe_hash(source, _built.FLAGS, version, sources)
    builder = Path(_build_probes.__file__).read_text()  # another one may write other data
    home = folder / hashlib.sha256(f"{hashed} {sys.version} {builder}".encode()).hexdigest()[:16]
    if home.exists():
        return home
    with tempfile.TemporaryDirectory(dir=folder) as result:
        _compile(source, sources, Path(result), compiler, version)
        with suppress(OSError):  # another process may have been first
            Path(result).rename(home)
            Path(result).mkdir()  # for the context, which removes it
    shutil.copyfile(source, folder / source.name)
    return home


def _compiler() -> tuple[list[str], str]:
    words = shlex.split(os.environ.get("CC", "")) or ["cc"]
    # Never the current folder's, which an empty part of PATH would mean.
    path = os.pathsep.join(folder for folder in os.get_exec_path() if Path(folder).is_absolute())
    try:
        words[0] = shutil.which(words[0], path=path) or ""
        process = subprocess.run([*words, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        cc = os.environ.get("CC") or "cc"
        raise CannotRun(f"no working C compiler ({cc}): install gcc or clang, or set CC") from None
    return words, process.stdout.partition("\n")[0]


def _compile(source: Path, folder: Path, output: Path, compiler: list[str], version: str) -> None:
    from memlab import _built
    from memlab.experiments import _build_probes

    flags = [*_built.FLAGS.split(), "-D_GNU_SOURCE", "-fPIC", f"-I{source.parent}", f"-I{folder}"]
    warnings = ["-Wall", "-Wextra", "-Werror=implicit-function-declaration"]
    _run([*compiler, *flags, *warnings, "-fsyntax-only", str(source)])  # its lines, before ours
    (output / "probe_sources").mkdir()
    shutil.copyfile(source, output / "probe_sources" / source.name)
    probes = [folder / "noop.c", source]
    try:
        with redirect_stdout(StringIO()):  # cffi tells what it writes
            _build_probes.write(probes, folder, output, _built.FLAGS, version)
    except SystemExit as error:
        raise BadRequest(str(error.code)) from None
    except Exception as error:  # cffi's, of what lies between the markers
        text = str(error).strip().partition("\n")[0]
        raise BadRequest(f"{source}: between the cdef markers: {text}") from None
    units = {
        str(path)
        for probe in probes
        for path in _build_probes.made_of(probe, folder)
        if path.suffix == ".c"
    }
    python = sysconfig.get_paths()["include"]
    wrapped = [f"-I{python}", "-include", "alloca.h", "-include", "string.h"]
    library = [*compiler, *flags, "-w", "-shared", *wrapped]
    target, binding = output / "_probes.so", output / "_probes.c"
    _run([*library, "-o", str(target), str(binding), *sorted(units), "-lrt", "-ldl"])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0:
        return
    if _HEADER in done.stderr:
        raise CannotRun("to compile a probe Python.h is needed: apt install python3-dev")
    match = _ERROR.search(done.stderr)
    raise BadRequest(match[0] if match else done.stderr.strip().rpartition("\n")[2])


def module_file(name: str, module: str) -> str:
    """Where a package's declaration is; BadRequest where there is none."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not (spec.origin or "").endswith(".py"):
        raise BadRequest(f"{name}: its package has no module {module}")
    return str(spec.origin)
