"""What a guest boots: its kernel, uncompressed, and an initramfs with all that it reads early.

Where the guest is emulated, Python and memlab take half a minute to start if each of their files is
read over 9p. So the initramfs holds those files, at the paths that they have on this host. They are
the upper of two layers; the lower one is this host's own root over 9p, for whatever else a trial
needs. A kernel without 9p or overlayfs has only the upper layer.
"""

from __future__ import annotations

import lzma
import marshal
import os
import shlex
import stat
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType

from memlab.errors import CannotRun
from memlab.machines.guest import foreign
from memlab.observe import guest_tools, proc
from memlab.observe.libc import Libc
from memlab.run import fork_server, kernel
from memlab.run.initramfs import CONSOLE, ArchiveMember, archive
from memlab.run.kernel import Kernel

HOST_TAG = "memlab-host"  # of this host's root, as 9p has it
# On the kernel's command line: hierarchies of cgroup v1, as systemd takes the words.
CGROUP_V1 = "systemd.unified_cgroup_hierarchy=0"
# Without the first two the guest cannot be heard; the others are for what trials do.
_NEEDED = ("virtio_pci", "virtio_console")
_OF_HOST = ("overlay", "9pnet_virtio", "9p")
_WANTED = ("virtio_blk", "ext4", "zram", *_OF_HOST)

# The ELF note by which QEMU finds the entry, after its name's size (Xen's elfnote.h,
# XEN_ELFNOTE_PHYS32_ENTRY).
_PVH = struct.pack("<II", 8, 18) + b"Xen\0"

# The end of a signed module, after struct module_signature, whose last member is the signature's
# length (the kernel's include/linux/module_signature.h).
_SIGNED, _SIGNATURE_HEAD_BYTES = b"~Module signature appended~\n", 12

_GZIP = zlib.MAX_WBITS | 16

_PLACE = ".memlab"  # in the initramfs, what is not part of the guest's root
# What is imported lives as long as the guest: the collector finds nothing there, in a fifth of the
# time that the imports take.
_MAIN = (
    "import gc, sys; gc.disable(); sys.path[:0] = sys.argv[1].split(chr(10)); {prepared}"
    "import memlab;"
    "memlab.__path__.append(sys.argv[2]); from memlab.machines.guest.inside import main;"
    "gc.freeze(); gc.enable(); main()"
)
# Two fifths of the imports' time is the compiler's, for the methods that dataclasses write as text.
# So that text is compiled on this host: the file's dict has the code of each. A Python whose
# dataclasses run their text in another way does not look there, and compiles it.
_COMPILED = "memlab-compiled"  # in the guest's root
_PREPARED = (
    f"import dataclasses, marshal; compiled = marshal.load(open('/{_COMPILED}', 'rb'));"
    "dataclasses.exec = lambda text, *names: exec(compiled.get(text, text), *names);"
)
# What the guest's Python and its workers import, found by importing it: the files, and a line of
# what dataclasses compiled on the way.
_IMPORTS = (
    "import sys; sys.path[:0] = sys.argv[1].split(chr(10)); import dataclasses, marshal;"
    "made = type('Made', (dict,), {'__missing__': lambda self, text:"
    " self.setdefault(text, compile(text, '<dataclass>', 'exec'))})();"
    "dataclasses.exec = lambda text, *names: exec(made[text], *names); import memlab;"
    "memlab.__path__.append(sys.argv[2]); import encodings.ascii, json;"
    "import memlab.run.worker, memlab.run.guardian, memlab.machines.guest.inside, memlab._probes;"
    "import memlab.experiment.tried, memlab.command;"
    "from memlab import experiments; [experiments.load(name) for name in experiments.names()];"
    "found = [getattr(m, '__file__', None) for m in list(sys.modules.values())];"
    "marshal.dump(([file for file in found if file], dict(made)), sys.stdout.buffer)"
)
# Run by busybox, which stays the first process: it takes the exit status of every orphan.
_INIT = """\
#!/{place}/busybox sh
PATH=/{place}
b="busybox"
while read -r module options; do
	$b insmod /{place}/modules/$module $options || echo "memlab: the kernel refused $module"
done < /{place}/modules/order
cd /{place}
$b mount -t tmpfs tmpfs top && $b mkdir top/files top/work
if ! {{ $b mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose {tag} host &&
	$b mount -t overlay -o lowerdir=lower:host,upperdir=top/files,workdir=top/work overlay root
}}; then
	$b mount --bind lower root
fi
cd root
$b mount -t proc proc proc
$b mount -t sysfs sysfs sys
$b mount -t devtmpfs dev dev
$b mkdir -p dev/shm dev/pts
$b mount -t devpts devpts dev/pts
$b mount -t tmpfs shm dev/shm
$b mount -t tmpfs run run
$b mkdir -m 1777 run/lock
read -r words < proc/cmdline
case " $words " in
*" {v1} "*)
	$b mount -t tmpfs cgroup sys/fs/cgroup
	for name in memory pids; do
		$b mkdir sys/fs/cgroup/$name && $b mount -t cgroup -o $name $name sys/fs/cgroup/$name
	done ;;
*)
	$b mount -t cgroup2 cgroup2 sys/fs/cgroup ;;
esac
$b mount -t tracefs tracefs sys/kernel/tracing
$b mount -t ext4 /{place}/root/dev/vda var/tmp
$b ifconfig lo up
{modules}
$b cp /{place}/busybox run/busybox
$b mount --move . /
exec $b chroot . /run/busybox sh -c {main}
"""
# What memlab reads beside its modules.
_SHARED = ("published/*.toml", "**/python_probes/**/*.py")
_FOLDERS = ("host", "lower", "root", "top")
_MOUNTED_ON = ("proc", "sys", "dev", "run", "var", "var/tmp", "tmp", "etc")


def make(
    image: Kernel,
    folder: Path,
    modules: Mapping[str, Iterable[str]],
    libcs: Iterable[Libc] = (),
) -> tuple[Path, Path]:
    """The kernel and the initramfs, written to a folder. `modules` are loaded beside the guest's
    own, by name with their options; `libcs` are for trials. CannotRun where the kernel lacks what a
    guest needs."""
    unpacked, initramfs = folder / "vmlinux", folder / "initramfs"
    native = image.machine == kernel.X86_64
    with ThreadPoolExecutor(1) as pool:
        lower = pool.submit(lambda: list(_lower(libcs) if native else _foreign()))
        vmlinux = uncompressed(image.path.read_bytes()) if native else None
        if vmlinux is None:
            unpacked = image.path
        else:
            unpacked.write_bytes(vmlinux)
        if why := lacks(image, vmlinux):
            raise CannotRun(f"the kernel {image.path} cannot be a guest's: {why}")
        members = [*CONSOLE, *_place(image, modules), *lower.result()]
    initramfs.write_bytes(archive(members))
    return unpacked, initramfs


def lacks(image: Kernel, vmlinux: bytes | None) -> str:
    """Why a guest of this kernel could not be heard; empty where it can, or where nobody knows."""
    if why := foreign.lacks(image.machine):
        return why
    folder = kernel.modules(image)
    if folder is None:  # what is built in has left its names
        named = vmlinux is None or all(name in vmlinux for name in (b"virtio-ports", b"virtio-pci"))
        return "" if named else "virtio is not built in, and no modules are beside it"
    try:
        known = "".join(proc.read(folder / f"modules.{kind}") for kind in ("dep", "builtin"))
    except FileNotFoundError as missing:
        name = Path(missing.filename).name
        return f"it has no {name}: unpack its linux-base package too"
    lacking = [name for name in _NEEDED if f"/{name}.ko" not in known]
    return f"it has no {lacking[0]}" if lacking else ""


def uncompressed(bzimage: bytes) -> bytes | None:
    """The ELF image in a bzImage, whose own decompression is slow where it is emulated; None where
    it cannot be had or could not be booted (Documentation/arch/x86/boot.rst)."""
    sectors = bzimage[0x1F1] or 4
    offset, length = struct.unpack_from("<II", bzimage, 0x248)
    start = (sectors + 1) * 512 + offset
    vmlinux = _decompressed(bzimage[start : start + length])
    bootable = vmlinux is not None and vmlinux[:4] == b"\x7fELF" and _PVH in vmlinux
    return vmlinux if bootable else None


def _decompressed(packed: bytes) -> bytes | None:
    """By the magic of what packed it; None where that is another, or where it is not whole."""
    zstd = guest_tools.find("zstd")
    if packed.startswith(b"\x28\xb5\x2f\xfd") and zstd:
        ended = subprocess.run([zstd, "-dcq"], input=packed, capture_output=True, check=False)
        return ended.stdout or None  # it complains of what follows the compressed frame
    whole = lzma.LZMADecompressor() if packed[:6] == b"\xfd7zXZ\0" else zlib.decompressobj(_GZIP)
    try:
        content = whole.decompress(packed)
    except (lzma.LZMAError, zlib.error):
        return None
    return content if whole.eof else None


def _place(image: Kernel, modules: Mapping[str, Iterable[str]]) -> Iterator[ArchiveMember]:
    """/init, busybox, and the modules in the order in which they are loaded."""
    busybox = guest_tools.find("busybox") or "busybox"
    if image.machine != kernel.X86_64:
        busybox = f"{foreign.root()}{foreign.BUSYBOX}"
    yield _folder(_PLACE)
    for name in (*_FOLDERS, "modules"):
        yield _folder(f"{_PLACE}/{name}")
    for name in _MOUNTED_ON:
        yield _folder(f"{_PLACE}/lower/{name}")
    yield _file(f"{_PLACE}/busybox", Path(busybox).read_bytes())
    forced = kernel.config(image).get("MODULE_SIG_FORCE") == "y"
    loaded = _modules(image, modules)
    order = []
    for number, (path, options) in enumerate(loaded):
        content = path.read_bytes()
        if path.suffix != ".ko" and (unpacked := _decompressed(content)):
            content = unpacked
        if not forced:
            content = _unsigned(content)
        name = f"{number:02d}-{path.name.partition('.')[0]}.ko"
        yield _file(f"{_PLACE}/modules/{name}", content)
        order.append(f"{name} {options}\n")
    yield _file(f"{_PLACE}/modules/order", "".join(order).encode())
    yield _file("init", _init(image).encode())


def _unsigned(module: bytes) -> bytes:
    """Without the signature at its end (the kernel's admin-guide/module-signing.rst), whose check
    is a fifth of an emulated boot."""
    if not module.endswith(_SIGNED):
        return module
    (length,) = struct.unpack_from(">I", module, len(module) - len(_SIGNED) - 4)
    return module[: -len(_SIGNED) - _SIGNATURE_HEAD_BYTES - length]


def _init(image: Kernel) -> str:
    folder = kernel.modules(image)
    # Where the kernel itself looks for a module that something asks it for.
    linked = shlex.quote(f"lib/modules/{image.release}")
    beside = f"/{_PLACE}/host{folder}"
    mount = f"$b mkdir -p {linked} && $b mount --bind {shlex.quote(beside)} {linked}"
    python, where, prepared = sys.executable, fork_server.where(), _PREPARED
    if image.machine != kernel.X86_64:
        python, where, prepared = foreign.PYTHON, foreign.where(), ""
    words = [python, "-I", "-S", "-c", _MAIN.format(prepared=prepared), *where]
    main = f"{shlex.join(words)}; /run/busybox reboot -f"
    return _INIT.format(
        place=_PLACE,
        v1=CGROUP_V1,
        tag=HOST_TAG,
        main=shlex.quote(main),
        modules=mount if folder else ":",
    )


def _modules(image: Kernel, beside: Mapping[str, Iterable[str]]) -> list[tuple[Path, str]]:
    """The files of the modules with their options, those that others need first."""
    folder = kernel.modules(image)
    if folder is None:
        return []  # a kernel with all of it built in
    results: dict[Path, str] = {}
    # Of this host's root nothing runs in a guest of another architecture.
    shared = () if image.machine == kernel.X86_64 else _OF_HOST
    for name in (name for name in (*_NEEDED, *_WANTED, *beside) if name not in shared):
        steps = _steps(folder, image, name)
        for path in steps:
            results.setdefault(path, "")
        if steps and name in beside:
            results[steps[-1]] = " ".join(beside[name])
    return list(results.items())


def _steps(folder: Path, image: Kernel, module: str) -> list[Path]:
    """What is loaded for a module, itself last; empty where it is built in or not there."""
    modprobe = guest_tools.find("modprobe") or "modprobe"
    base = str(folder.parents[2])
    requests = [
        modprobe,
        "-d",
        base,
        "-S",
        image.release,
        "-C",
        "/dev/null",
        "--show-depends",
        module,
    ]
    ended = subprocess.run(requests, capture_output=True, text=True, check=False)
    lines = [line.split() for line in ended.stdout.splitlines()]
    return [Path(words[1]) for words in lines if words[:1] == ["insmod"]]


def _lower(libcs: Iterable[Libc]) -> Iterator[ArchiveMember]:
    """This host's files that the guest's Python reads, at their own paths, and libcs likewise."""
    imported, compiled = _imported()
    package = Path(__file__).parents[2]
    native = [sys.executable, *(name for name in imported if ".so" in name)]
    configured = Path(sys.executable).parents[1] / "pyvenv.cfg"
    files = [*native, *_libraries(native), *_with_bytecode(imported), *_data(package)]
    if configured.exists():
        files.append(str(configured))
    files += [str(path) for libc in libcs for path in libc.loader.parent.glob("*.so*")]
    tree: dict[str, ArchiveMember] = {}
    for name in files:
        _add(Path(name), tree)
    yield from tree.values()
    yield _file(f"{_PLACE}/lower/{_COMPILED}", marshal.dumps(compiled))


def _foreign() -> Iterator[ArchiveMember]:
    """As _lower, for another architecture: its own files, and memlab's modules of this host."""
    imported, _ = _imported()
    package = Path(__file__).parents[2]
    tree: dict[str, ArchiveMember] = {}
    for name in foreign.files(imported):
        _add(Path(name), tree, foreign.root())
    own = (name for name in imported if Path(name).is_relative_to(package))
    shared = (str(path) for kind in _SHARED for path in sorted(package.glob(kind)))
    for name in (*_with_bytecode(own), *shared):
        _add(Path(name), tree)
    return iter(tree.values())


def _imported() -> tuple[list[str], dict[str, CodeType]]:
    """The files, and the code of what dataclasses compiled, by its text."""
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _IMPORTS, *fork_server.where()],
        capture_output=True,
        check=False,
    )
    if ended.returncode:
        line = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise CannotRun(f"what a guest imports cannot be imported here: {line}")
    result: tuple[list[str], dict[str, CodeType]] = marshal.loads(ended.stdout)
    return result


def _with_bytecode(files: Iterable[str]) -> Iterator[str]:
    for name in files:
        yield name
        if name.endswith(".py") and Path(cached := cache_from_source(name)).exists():
            yield cached


def _data(package: Path) -> Iterator[str]:
    """What memlab reads beside its modules."""
    built = Path(fork_server.where()[1])
    for kind in _SHARED:
        yield from map(str, sorted(package.glob(kind)))
    yield from map(str, sorted((built / "launch").glob("*")))


def _libraries(programs: Iterable[str]) -> Iterator[str]:
    """The shared libraries of programs and libraries, and the loader, by their paths."""
    ldd = guest_tools.find("ldd")
    if ldd is None:
        raise CannotRun("no ldd, which says what a program is made of: apt install libc-bin")
    ended = subprocess.run([ldd, *programs], capture_output=True, text=True, check=False)
    for word in ended.stdout.split():
        if word.startswith("/") and not word.endswith(":"):
            yield word


def _add(path: Path, tree: dict[str, ArchiveMember], root: Path = proc.ROOT) -> None:
    """A file by its path below a root, and every folder and link on the way to it."""
    at = Path("/")
    for part in Path(os.path.abspath(path)).parts[1:]:  # noqa: PTH100 - links are kept
        at /= part
        name = f"{_PLACE}/lower{at}"
        there = root / at.relative_to("/")
        status = there.lstat()
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(there)  # noqa: PTH115 - as it is written
            tree.setdefault(name, ArchiveMember(name, status.st_mode, target.encode()))
            rest = path.relative_to(at)
            _add(at.parent / target / rest, tree, root)
            return
        if name not in tree:
            content = there.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            tree[name] = ArchiveMember(
                name, status.st_mode, content, modified_s=int(status.st_mtime)
            )


def _folder(name: str) -> ArchiveMember:
    return ArchiveMember(name, stat.S_IFDIR | 0o755)


def _file(name: str, content: bytes) -> ArchiveMember:
    return ArchiveMember(name, stat.S_IFREG | 0o755, content)
