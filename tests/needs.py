"""What some tests need besides what README names: each is asked for here, with what gives it.

`@pytest.mark.needs("root", "openssl")` skips a test where one is missing; `needs.of("busybox")`
does it inside a test or a fixture. A name is one of NEEDS or of the lines of `memlab doctor`, such
as "memory cgroup" or "add swap". A test that only its trial can refuse (a counter, a lock) is
skipped with the words of that refusal.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bpf_maps
import pytest

from memlab.diagnose import call_places, call_rings, pages
from memlab.errors import CannotRun
from memlab.experiment.huge_pages import THP
from memlab.files import ownership
from memlab.observe import (
    allocators,
    capabilities,
    cgroup,
    guest_tools,
    proc,
    process,
    system_calls,
)
from memlab.run import kernel
from memlab.trace import recording

SBIN = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
ROOT = os.geteuid() == 0
# Read before the tests' own home takes the environment over.
GUEST_KERNEL = os.environ.get("GUEST_KERNEL")
GUEST_KERNEL_2 = os.environ.get("GUEST_KERNEL_2")
GUEST_KERNEL_ARM64 = os.environ.get("GUEST_KERNEL_ARM64")
GUEST_ARM64 = os.environ.get("GUEST_ARM64")


@dataclass(frozen=True)
class Need:
    """A thing that a machine may lack: whether it is here, what gives it, in a word, and where the
    files may lie without which it is not here."""

    here: Callable[[], bool]
    gives: str
    files: Callable[[], Iterable[Path]] = tuple


def guest_kernel() -> str | None:
    """$GUEST_KERNEL, else the newest that is installed."""
    installed = kernel.installed()
    return GUEST_KERNEL or (str(installed.path) if installed else None)


def _in_folders(search: str, *names: str) -> list[Path]:
    return [Path(folder, name) for folder in search.split(os.pathsep) for name in names]


def _program(package: str, *names: str) -> Need:
    found = partial(shutil.which, path=SBIN)
    files = partial(_in_folders, SBIN, *names)
    return Need(lambda: all(map(found, names)), f"apt install {package}", files)


def _of_guests(name: str, gives: str) -> Need:
    def files() -> list[Path]:
        return _in_folders(guest_tools.search_path(), name)

    return Need(lambda: guest_tools.find(name) is not None, gives, files)


def _library(name: str) -> Need:
    def here() -> bool:
        try:
            allocators.find(name)
        except allocators.NoAllocator:
            return False
        return True

    def files() -> list[Path]:
        named = allocators.LIBRARIES[name].file
        return [path for path in allocators._searched() if named.fullmatch(path.name)]

    return Need(here, f"apt install {allocators.LIBRARIES[name].package}", files)


def _namespace(kind: str, run: str = "true") -> Need:
    """What unshare(1) makes; in a plain chroot it makes no mount namespace."""
    words = ["unshare", kind, *([] if ROOT else ["--user", "--map-root-user"]), "sh", "-c", run]

    def here() -> bool:
        done = subprocess.run(words, stderr=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    return Need(here, "run in no plain chroot and in no container without privileges")


def _settings() -> bool:
    return all(os.access(path, os.W_OK) for path in ("/proc/sys/vm/dirty_bytes", "/sys/kernel/mm"))


def _capable() -> bool:
    """Of root; an ordinary user is not expected to have any."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    # One or two are withheld from containers that may mount and read all else.
    return not ROOT or capabilities.effective().bit_count() >= last - 1


def _makes_rings() -> bool:
    """io_uring_setup fails with EFAULT for a null pointer if the kernel supports and allows it."""
    number, libc = system_calls.NUMBERS.get("io_uring_setup"), ctypes.CDLL(None, use_errno=True)
    if number is None:
        return False
    return libc.syscall(number, 1, None) < 0 and ctypes.get_errno() == errno.EFAULT


def _makes_bpf_maps() -> bool:
    try:
        with bpf_maps.opened(1):
            return True
    except OSError:
        return False


def _traces() -> bool:
    line = _doctor()["perf tracepoints"]
    return ROOT and line.detail == "open for the whole system"


def _commits_by_guess() -> bool:
    rule = Path("/proc/sys/vm/overcommit_memory").read_text().strip()
    return rule == "0" and resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def _records() -> bool:
    try:
        recording._events()
        rings = call_rings.record_all([min(os.sched_getaffinity(0))], call_rings.events().exit,
                                      "ret < 0")  # fmt: skip
    except (CannotRun, OSError):
        return False
    for ring in rings:
        ring.close()
    return True


def _links_statically() -> bool:
    words = ["cc", "-x", "c", "-static", "-o", "/dev/null", "-"]
    program = b"int main(void) { return 0; }"
    return subprocess.run(words, input=program, capture_output=True, check=False).returncode == 0


def _binds(family: int, kind: int, address: tuple[str | int, ...]) -> bool:
    try:
        with socket.socket(family, kind) as made:
            made.bind(address)
    except OSError:
        return False
    return True


def _shows_sleeps() -> bool:
    """The function that a thread sleeps in; "0" of one that runs, and of any where it is hidden."""
    with subprocess.Popen(["sleep", "infinity"]) as program:
        try:
            while process.stat(program.pid).state != "S":
                time.sleep(0.01)
            return proc.read(Path(f"/proc/{program.pid}/wchan")) != "0"
        finally:
            program.kill()


def _sees_queues() -> bool:
    """A descriptor is a queue by the file system that it is of."""
    is_mounted = any(mount.filesystem == "mqueue" for mount in process.mounts(os.getpid()))
    is_capable = bool(capabilities.effective() >> 21 & 1)  # CAP_SYS_ADMIN
    return Path("/proc/sys/fs/mqueue").exists() and (is_mounted or is_capable)


def _names_readers(path: Path | None, *, is_system: bool = False) -> bool:
    """Whether fanotify(7) says who reads a file, or those of its file system, as the recorder asks
    it to."""
    if path is None:
        return False
    libc = ctypes.CDLL(None)
    reads = libc.fanotify_init(0xD01 if is_system else 0x101, 0)
    if reads < 0:
        return False
    try:
        types = (ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p)
        mark = ctypes.CFUNCTYPE(ctypes.c_int, *types)(("fanotify_mark", libc))
        return bool(mark(reads, 0x101 if is_system else 1, 1, -100, bytes(path)) == 0)
    finally:
        os.close(reads)


def _sees_pages() -> bool:
    pid = os.getpid()
    try:
        pages.read(pid, process.maps(pid))
    except pages.NotSeen:
        return False
    return True


def _real_time() -> bool:
    usual, param = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return False
    os.sched_setscheduler(0, usual, param)
    return True


@cache
def _doctor() -> dict[str, capabilities.Capability]:
    return {line.name: line for line in capabilities.read()}


def _users_do_not_count_the_kernel() -> bool:
    return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) >= 2


def _set_id() -> bool:
    """Whether the kernel takes set-user-ID bits and capabilities of files there."""
    capabilities_of_file = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.setxattr(file.fileno(), "security.capability", capabilities_of_file)
        except OSError:
            return False
        return not os.fstatvfs(file.fileno()).f_flag & os.ST_NOSUID


def narrow_program(code: bytes) -> bytes:
    """An executable of 32 bits for x86."""
    head = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 2, 3, 1, 0x8048054, 52, 0, 0,
                       52, 32, 1, 0, 0, 0)  # fmt: skip
    size = 84 + len(code)
    segment = struct.pack("<8I", 1, 0, 0x8048000, 0x8048000, size, size, 5, 4096)
    return head + segment + code


def _runs_32_bit() -> bool:
    """An executable of 32 bits that ends at once (mov $1, %eax; xor %ebx, %ebx; int $0x80)."""
    if os.uname().machine != "x86_64":
        return False
    code = bytes.fromhex("b80100000031dbcd80")
    with tempfile.TemporaryDirectory() as folder:
        (program := Path(folder, "a")).write_bytes(narrow_program(code))
        program.chmod(0o755)
        try:
            return subprocess.run([program], check=False).returncode == 0
        except OSError:  # ENOEXEC
            return False


@contextmanager
def cgroup_of_events() -> Iterator[Path]:
    """A group of cgroup v2 of its own, without a controller."""
    mounts = [Path(one.mount_point) for one in proc.mounts() if one.filesystem == "cgroup2"]
    folder = Path(tempfile.mkdtemp(prefix="memlab-", dir=mounts[0] if mounts else "/nowhere"))
    try:
        yield folder
    finally:
        folder.rmdir()


def _counts_cgroups() -> bool:
    try:
        with cgroup_of_events() as folder:
            (folder / "cgroup.procs").read_text()
            fd = os.open(folder, os.O_RDONLY)
            try:
                rings = call_rings.record_all([0], call_rings.events().exit, "ret < 0", fd)
            finally:
                os.close(fd)
    except OSError:
        return False
    for ring in rings:
        ring.close()
    return True


def _scans_pages() -> bool:
    pid = os.getpid()
    try:
        pages.read(pid, process.maps(pid), detailed=False)
    except pages.NotSeen:
        return False
    return True


_GET_MDWE = 66  # PR_GET_MDWE of include/uapi/linux/prctl.h
NEEDS = {
    "root": Need(lambda: ROOT, "run as root"),
    "host root": Need(ownership.is_host_root, "run as root, in no user namespace"),
    "a user namespace": _namespace("--user"),
    "writable settings": Need(_settings, "run as root, where /sys and /proc/sys are writable"),
    "root's capabilities": Need(_capable, "run in a container with all of them, or as a user"),
    "counts of page faults": Need(
        lambda: _doctor()["perf software events"].available, "sysctl kernel.perf_event_paranoid=2"
    ),
    "tracing of a CPU": Need(_traces, "run as root, with perf and tracefs allowed"),
    "a real-time policy": Need(
        _real_time, "run as root, in no cpu cgroup with cpu.rt_runtime_us 0"
    ),
    "recording": Need(
        _records, "run as root, with CAP_PERFMON and the tracepoints of calls and page faults"
    ),
    "events of cgroups": Need(
        _counts_cgroups,
        "run as root, where cgroup2 is mounted, on a kernel with CONFIG_CGROUP_PERF",
    ),
    "readers of settings": Need(
        lambda: _names_readers(Path(f"{THP}/enabled")), "run as root, with CAP_SYS_ADMIN"
    ),
    "readers of cgroups": Need(
        lambda: _names_readers(next(iter(cgroup.chain("memory")[1]), None), is_system=True),
        "run as root, with CAP_SYS_ADMIN, on a kernel that names files of cgroups to fanotify(7)",
    ),
    "a root that is a mount": Need(
        lambda: any(mount.mount_point == "/" for mount in call_places.mounts(os.getpid()).values()),
        "run in no plain chroot",
    ),
    "io_uring": Need(_makes_rings, "sysctl kernel.io_uring_disabled=0, where seccomp allows it"),
    "BPF maps": Need(_makes_bpf_maps, "run as root, on a kernel with CONFIG_BPF_SYSCALL"),
    "glibc": Need(lambda: platform.libc_ver()[0] == "glibc", "a system with glibc"),
    "variables of threads": Need(
        lambda: platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc",
        "x86-64, a system with glibc",
    ),
    "a policy against executable memory": Need(
        lambda: ctypes.CDLL(None).prctl(_GET_MDWE, 0, 0, 0, 0) >= 0, "Linux 6.3 or newer"
    ),
    "scans of page tables": Need(_scans_pages, "Linux 6.7 or newer"),
    "flags of pages": Need(_sees_pages, "run as root, where /proc/kpageflags is readable"),
    "a mount namespace": _namespace("--mount", "mount -t tmpfs none /mnt"),
    "a network namespace": _namespace("--net"),
    "a static C library": Need(_links_statically, "apt install libc6-dev"),
    "IPv6": Need(
        lambda: _binds(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
        "a kernel or container with IPv6 on its loopback",
    ),
    "packet sockets": Need(
        lambda: _binds(socket.AF_PACKET, socket.SOCK_RAW, ("lo", 0)),
        "run as root, with CAP_NET_RAW, on a kernel with CONFIG_PACKET",
    ),
    "comparisons of processes": Need(
        lambda: process.shares_memory(os.getpid(), os.getpid()),
        "a kernel with CONFIG_KCMP, in no container that forbids kcmp(2)",
    ),
    "places of sleep": Need(_shows_sleeps, "a kernel with CONFIG_KALLSYMS"),
    "queues of System V": Need(Path("/proc/sysvipc/msg").exists, "a kernel with CONFIG_SYSVIPC"),
    "POSIX queues": Need(
        _sees_queues, "run as root, or mount -t mqueue none /dev/mqueue (CONFIG_POSIX_MQUEUE)"
    ),
    "netlink groups": Need(
        lambda: bool(capabilities.effective() >> 12 & 1), "run as root, with CAP_NET_ADMIN"
    ),
    "kernel.perf_event_paranoid of 2": Need(_users_do_not_count_the_kernel, "sysctl it to 2"),
    "huge pages": Need(
        lambda: "HugePages_Free" in Path("/proc/meminfo").read_text(),
        "a kernel with CONFIG_HUGETLBFS",
    ),
    "traces": Need(lambda: os.uname().machine in ("x86_64", "aarch64"), "x86-64 or arm64"),
    "set-id files": Need(
        _set_id, "run as root, with a folder for temporary files that mount(8) shows without nosuid"
    ),
    "overcommit by guess": Need(_commits_by_guess, "vm.overcommit_memory=0, and no RLIMIT_AS"),
    "arguments of calls that end": Need(lambda: call_rings.HAVE_ARGUMENTS, "x86-64"),
    "memory cgroup v1": Need(
        lambda: cgroup.locate().memory_version == "1", "a host whose memory controller is of v1"
    ),
    "32-bit programs": Need(_runs_32_bit, "x86-64 and a kernel with CONFIG_IA32_EMULATION"),
    "/run/lock": Need(Path("/run/lock").is_dir, "mkdir /run/lock"),
    "dpkg-deb": _program("dpkg", "dpkg-deb"),
    "ssh": _program("openssh-client", "ssh", "ssh-keygen"),
    "sshd": _program("openssh-server", "sshd"),
    "ip": _program("iproute2", "ip"),
    "node": _program("nodejs", "node"),
    "openssl": _program("openssl", "openssl"),
    "dask": Need(lambda: find_spec("distributed") is not None, "pip install 'memlab[dask]'"),
    "qemu": _of_guests(guest_tools.QEMU, guest_tools.QEMU_REMEDY),
    "busybox": _of_guests("busybox", "apt install busybox-static"),
    "modprobe": _of_guests("modprobe", "apt install kmod"),
    "guest kernel": Need(
        lambda: guest_kernel() is not None,
        "set GUEST_KERNEL to a vmlinuz, or apt install linux-image-amd64",
    ),
    "second guest kernel": Need(
        lambda: GUEST_KERNEL_2 is not None, "set GUEST_KERNEL_2 to a newer vmlinuz"
    ),
    "arm64 guest": Need(
        lambda: None not in (GUEST_KERNEL_ARM64, GUEST_ARM64),
        "packaging/arm64.sh, and set GUEST_ARM64 and GUEST_KERNEL_ARM64",
    ),
    "jemalloc": _library("jemalloc"),
    "tcmalloc": _library("tcmalloc"),
    "mimalloc": _library("mimalloc"),
}


@cache
def lacking(name: str) -> str:
    """`needs NAME: what gives it`, or nothing where it is here. KeyError for what is neither."""
    if name in NEEDS:
        need = NEEDS[name]
        return "" if need.here() else f"needs {name}: {need.gives}"
    line = _doctor()[name]
    return "" if line.available else f"needs {name} ({line.detail}): {line.remedy}"


def each(*names: str) -> list[Any]:
    """These as parameters; one that is the name of a need is skipped where that is missing."""
    return [pytest.param(n, marks=pytest.mark.needs(n)) if n in NEEDS else n for n in names]


def of(*names: str) -> None:
    """Skip the test that runs, by name, where one of these is missing."""
    if said := next(filter(None, map(lacking, names)), ""):
        pytest.skip(said)
