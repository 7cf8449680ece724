"""Which limits may explain a failing call, by call and errno.

Sources: the pages of manual of the calls; fs/notify/inotify/inotify_user.c, fs/aio.c, ipc/util.c,
io_uring/rsrc.c, kernel/events/core.c, kernel/fork.c, mm/mmap.c, mm/mlock.c of Linux 6.18.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """What may explain some failing calls."""

    name: str
    calls: str
    """Names, with spaces between; `*` is any."""
    errnos: str
    limits: tuple[str, ...]
    """Names of `Room`, or what such a name begins with."""
    reads: str = ""
    """The key of `call_limits.READERS` that reads them; empty for those that each look reads."""
    refuses: str = ""
    """What is refused, in words."""
    setting: str = ""
    certain: bool = False
    """A program does not try this and fall back: to be refused it is an alarm."""
    unread: str = ""
    """What else may be the cause, and is not read."""
    only: bool = False
    """The errno says nothing else, and such a call asks for several: it asks for more than is left.
    """


_NEW_FILES = (
    "open openat openat2 creat socket socketpair accept accept4 pipe pipe2 dup dup2 dup3 fcntl "
    "eventfd eventfd2 epoll_create epoll_create1 timerfd_create signalfd signalfd4 memfd_create "
    "pidfd_open userfaultfd perf_event_open bpf io_uring_setup io_uring_register recvmsg recvmmsg "
    "memfd_secret open_by_handle_at open_tree fsopen fspick fsmount landlock_create_ruleset "
    "pidfd_getfd seccomp clone clone3 ioctl"
)
MAKES = (
    "clone", "clone3", "fork", "vfork", "unshare", "setns", "socket", "socketpair", "mount",
    "memfd_create", "memfd_secret", "timer_create", "io_setup", "epoll_create1", "eventfd2",
    "signalfd4", "timerfd_create", "pipe2", "inotify_init1", "fanotify_init",
)  # fmt: skip
"""Calls that no program makes to see whether it may: a filter of system calls, a security module or
a missing right refuses them."""
_GROWS = (
    "write pwrite64 writev pwritev pwritev2 fallocate ftruncate truncate sendfile splice "
    "copy_file_range"
)
_WRITES = (
    f"{_GROWS} fsync fdatasync msync open openat openat2 creat mkdir mkdirat rename renameat "
    "renameat2 link linkat symlink symlinkat mknod mknodat setxattr lsetxattr "
    "fsetxattr"
)
LOCK = "ulimit -l, LimitMEMLOCK= of its unit, or CAP_IPC_LOCK"
_TASKS = ("pids.max", "RLIMIT_NPROC", "kernel.threads-max", "kernel.pid_max")
FILES = "ulimit -n, LimitNOFILE= of its unit; files that are never closed (ls -l /proc/PID/fd)"
MACHINE = "vm.overcommit_memory=0"
_SPACE = ("vm.max_map_count", "RLIMIT_AS", "RLIMIT_DATA", "CommitLimit", MACHINE,
          "huge pages (hugetlb)", "addresses of a 32-bit program")  # fmt: skip
NOEXEC, SEGMENT = "noexec of", "kernel.shmmax"
_RIGHTS = "capabilities, filters of system calls (seccomp) and security modules"
OF_A_CALL = (MACHINE, SEGMENT)
"""Limits on what one call may ask for."""

ROWS = (
    Row("lock-limit-refuses", "mmap mremap", "EAGAIN", ("RLIMIT_MEMLOCK",), setting=LOCK
        + "; if it calls mlockall: MCL_CURRENT alone (MCL_ONFAULT does not help: a mapping counts "
        "whole); "
        "or smaller stacks", certain=True),
    Row("lock-refused", "mlock mlock2 mlockall", "ENOMEM EPERM EAGAIN", ("RLIMIT_MEMLOCK",),
        refuses="mlock is refused", setting=LOCK, unread="addresses that are not mapped"),
    Row("pin-refused", "io_uring_register", "ENOMEM", ("pinned of RLIMIT_MEMLOCK",), "pins",
        "pinned memory is refused", setting=LOCK + "; what other programs of the user pin counts "
        "too (VmPin in their /proc/PID/status)"),
    Row("pin-refused", "io_uring_setup", "ENOMEM", ("pinned of RLIMIT_MEMLOCK",), "ring pins",
        "memory of a ring is refused", LOCK,
        unread="the limit of its group, and memory in one piece"),
    Row("pin-refused", "bpf", "ENOMEM", ("pinned of RLIMIT_MEMLOCK",), "map pins",
        "memory of the kernel is refused", LOCK, unread="the limit of its group"),
    Row("right-refused", "io_uring_setup io_uring_register perf_event_open bpf prlimit64 setrlimit "
        "mbind set_mempolicy migrate_pages move_pages keyctl add_key fcntl shmget shmctl "
        "sched_setscheduler sched_setparam sched_setattr " + " ".join(MAKES), "EPERM",
        ("a right",), refuses="it is not allowed", unread=_RIGHTS),
    Row("right-refused", "perf_event_open shmget setpriority " + " ".join(MAKES), "EACCES",
        ("a right",), refuses="it is not allowed", unread=_RIGHTS),
    Row("mapping-refused", "mmap", "EPERM", ("pinned of RLIMIT_MEMLOCK", NOEXEC), "mappings",
        "a mapping is refused", unread="a sealed file and a security module"),
    Row("threads-refused", "clone clone3 fork vfork execve execveat", "EAGAIN", _TASKS,
        refuses="new threads or processes are refused", certain=True),
    Row("inotify-refused", "inotify_add_watch", "ENOSPC", ("fs.inotify.", "user.max_inotify_"),
        "inotify watches", "a watch is refused, of files or folders",
        "sysctl fs.inotify.max_user_watches: it counts the watches of all programs of the user"),
    Row("inotify-refused", "inotify_init inotify_init1", "EMFILE",
        ("RLIMIT_NOFILE", "fs.inotify.", "user.max_inotify_"), "inotify instances",
        "inotify_init is refused",
        "sysctl fs.inotify.max_user_instances: it counts those of all programs of the user"),
    Row("epoll-refused", "epoll_ctl", "ENOSPC", ("fs.epoll.max_user_watches",), "epoll",
        "epoll_ctl is refused", "sysctl fs.epoll.max_user_watches"),
    Row("files-refused", _NEW_FILES, "EMFILE", ("RLIMIT_NOFILE",),
        refuses="a new file descriptor is refused", setting=FILES),
    Row("pipes-refused", "pipe pipe2", "ENFILE", ("fs.pipe-user-pages-hard", "fs.file-max"),
        "pipes", "a pipe is refused", "sysctl fs.pipe-user-pages-hard; pipes that nobody closes"),
    Row("passing-refused", "sendmsg sendmmsg", "ETOOMANYREFS", ("files in flight",), "in flight",
        "to pass a file is refused", "a receiver that takes what it is sent; ulimit -n: the files "
        "in flight of all programs of the user count against it"),
    Row("file-size-refused", _GROWS, "EFBIG", ("RLIMIT_FSIZE",), "file size",
        "a file may not grow", "ulimit -f, LimitFSIZE= of its unit"),
    Row("machine-files-refused", "*", "ENFILE", ("fs.file-max",), "open files",
        "open is refused", "sysctl fs.file-max: it counts the files of all processes"),
    Row("aio-refused", "io_setup", "EAGAIN", ("fs.aio-max-nr",), "aio", "io_setup is refused",
        "sysctl fs.aio-max-nr: it counts the events of all processes", only=True),
    Row("sysv-refused", "semget", "ENOSPC", ("kernel.sem",), "semaphores", "semget is refused",
        "sysctl kernel.sem; sets that nobody removed (ipcs -s, ipcrm -s ID)", only=True),
    Row("sysv-refused", "shmget", "ENOSPC", ("kernel.shm",), "segments", "shmget is refused",
        "sysctl kernel.shmmni, kernel.shmall; segments that nobody removed (ipcs -m, ipcrm -m ID)",
        only=True),
    Row("sysv-refused", "shmget", "EINVAL", (SEGMENT,), "segment", "shmget is refused",
        "sysctl kernel.shmmax; or a segment of that key that is there, and smaller (ipcs -m)"),
    Row("sysv-refused", "msgget", "ENOSPC", ("kernel.msgmni",), "queues", "msgget is refused",
        "sysctl kernel.msgmni; queues that nobody removed (ipcs -q, ipcrm -q ID)"),
    Row("options-refused", "setsockopt", "ENOBUFS ENOMEM",
        ("net.ipv4.igmp_max_memberships", "net.core.optmem_max"),
        refuses="an option of a socket is refused",
        setting="of a multicast group sysctl net.ipv4.igmp_max_memberships, of each socket; of a "
        "filter net.core.optmem_max", unread="which option it is"),
    Row("handler-refused", "userfaultfd", "EPERM", ("vm.unprivileged_userfaultfd",), "userfaultfd",
        "a handler of page faults is refused",
        "UFFD_USER_MODE_ONLY, CAP_SYS_PTRACE, /dev/userfaultfd, or sysctl "
        "vm.unprivileged_userfaultfd"),
    Row("messages-lost", "recvfrom recvmsg recvmmsg read", "ENOBUFS", ("receive buffers",),
        setting="of a netlink socket: a reader that keeps up; a larger SO_RCVBUF"),
    Row("messages-wait", "msgsnd", "EAGAIN", ("kernel.msgmnb", "msg_qbytes"), "messages",
        "a queue is full", "a reader that keeps up (ipcs -q); sysctl kernel.msgmnb is for queues "
        "that are made later, msgctl(IPC_SET) for one that is there"),
    Row("messages-wait", "mq_timedsend", "EAGAIN", ("mq_maxmsg",), "posix messages",
        "a queue is full", "a reader that keeps up; mq_maxmsg of mq_open, at most "
        "fs.mqueue.msg_max", unread="queues, if no mqueue is mounted and this user is not root"),
    Row("messages-refused", "mq_open", "EMFILE", ("RLIMIT_NOFILE",),
        refuses="a message queue is refused",
        setting="ulimit -q, LimitMSGQUEUE= of its unit: it counts the bytes of all queues of the "
        "user; queues that nobody removed (mq_unlink)"),
    Row("messages-refused", "mq_open", "ENOSPC", ("fs.mqueue.queues_max",), "message queues",
        "a message queue is refused", "sysctl fs.mqueue.queues_max; queues that nobody removed "
        "(mq_unlink; ls /dev/mqueue, if it is mounted)", unread="queues, if no mqueue is mounted"),
    Row("signals-refused", "timer_create rt_sigqueueinfo rt_tgsigqueueinfo tgkill tkill "
        "pidfd_send_signal", "EAGAIN", ("RLIMIT_SIGPENDING",),
        "signals", "timers and queued signals are refused", "ulimit -i, LimitSIGPENDING="),
    Row("keys-refused", "add_key request_key keyctl", "EDQUOT", ("kernel.keys.",), "keys",
        "a key is refused", "sysctl kernel.keys.maxkeys, kernel.keys.maxbytes"),
    Row("quota-refused", _WRITES, "EDQUOT", ("quota",), refuses="a quota is used up",
        setting="remove files of that user, group or project (repquota -ugP); a higher quota",
        unread="which quota, and of which file system"),
    Row("memory-refused", "mmap mprotect munmap pkey_mprotect shmat brk", "ENOMEM", _SPACE,
        "huge pages", "mapping memory is refused",
        unread="the address space, and addresses that are not mapped"),
    Row("memory-refused", "mremap", "ENOMEM", _SPACE, "huge pages", "a mapping does not grow",
        unread="whether it may move (if not, what lies behind it refuses it, and no limit), the "
        "address space, and addresses that are not mapped"),
    Row("forks-refused", "clone clone3 fork vfork", "ENOMEM",
        ("CommitLimit", "PID namespace"), "children",
        "new threads or processes are refused", "man 2 fork says what ENOMEM means to it",
        certain=True, unread="kernel memory"),
    Row("groups-refused", "mkdir mkdirat", "EAGAIN", ("cgroup.max.",), "groups",
        "a cgroup is refused", "cgroup.max.descendants and cgroup.max.depth of the groups above",
        unread="cgroup.max.depth"),
    Row("fanotify-refused", "fanotify_init", "EMFILE",
        ("RLIMIT_NOFILE", "fs.fanotify.", "user.max_fanotify_"), "fanotify groups",
        "fanotify_init is refused",
        "sysctl fs.fanotify.max_user_groups: it counts those of all programs of the user"),
    Row("fanotify-refused", "fanotify_mark", "ENOSPC",
        ("fs.fanotify.", "user.max_fanotify_"), "fanotify marks",
        "a mark is refused, of files or folders",
        "sysctl fs.fanotify.max_user_marks: it counts the marks of all programs of the user"),
    Row("namespaces-refused", "unshare clone clone3 setns", "ENOSPC", ("user.max_",), "namespaces",
        "a new namespace is refused", "sysctl user.max_user_namespaces and its like; "
        "namespaces nest 32 deep at most (lsns)",
        unread="how many the user has, and how deep they are nested"),
    Row("mounts-refused", "mount fsmount move_mount open_tree", "ENOSPC", ("fs.mount-max",),
        "mounts", "a mount is refused", "sysctl fs.mount-max; mounts that nobody takes away "
        "(findmnt)"),
    Row("no-space", _WRITES, "ENOSPC",
        ("the file system", "inodes of the file system", "kernel.pty.max", "max= of",
         "memory cgroups"),
        "file systems", "there is no room",
        "remove files (df, df -i), or a larger file system; size= of a tmpfs",
        unread="the file system that the call is about"),
)  # fmt: skip


def row(call: str, errno: str) -> Row | None:
    """The row that explains this pair; None where it is not known."""
    for one in ROWS:
        if (one.calls == "*" or call in one.calls.split()) and errno in one.errnos.split():
            return one
    return None
