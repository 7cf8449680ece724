"""Names of system calls by number, of those that can fail for want of something.

Sources: arch/x86/entry/syscalls/syscall_64.tbl; include/uapi/asm-generic/unistd.h, which aarch64
and riscv64 have.
"""

import os

_X86_64 = (
    "mmap:9 mremap:25 brk:12 mprotect:10 munmap:11 madvise:28 mlock:149 mlock2:325 mlockall:151 "
    "clone:56 clone3:435 fork:57 vfork:58 execve:59 inotify_init:253 inotify_init1:294 "
    "inotify_add_watch:254 fanotify_init:300 fanotify_mark:301 open:2 openat:257 openat2:437 "
    "creat:85 socket:41 socketpair:53 accept:43 accept4:288 pipe:22 pipe2:293 dup:32 dup2:33 "
    "dup3:292 fcntl:72 eventfd:284 eventfd2:290 epoll_create:213 epoll_create1:291 "
    "epoll_ctl:233 timerfd_create:283 signalfd:282 signalfd4:289 memfd_create:319 "
    "pidfd_open:434 userfaultfd:323 perf_event_open:298 bpf:321 io_uring_setup:425 "
    "io_uring_register:427 io_uring_enter:426 io_setup:206 io_submit:209 semget:64 semop:65 "
    "semtimedop:220 semctl:66 shmget:29 shmat:30 msgget:68 msgsnd:69 mq_open:240 "
    "mq_timedsend:242 timer_create:222 rt_sigqueueinfo:129 write:1 pwrite64:18 writev:20 "
    "pwritev:296 pwritev2:328 fallocate:285 ftruncate:77 truncate:76 sendfile:40 splice:275 "
    "copy_file_range:326 mkdir:83 mkdirat:258 rename:82 renameat:264 renameat2:316 link:86 "
    "linkat:265 symlink:88 symlinkat:266 mknod:133 mknodat:259 setxattr:188 fsetxattr:190 "
    "fsync:74 fdatasync:75 msync:26 sendto:44 sendmsg:46 sendmmsg:307 recvmsg:47 add_key:248 "
    "request_key:249 keyctl:250 mbind:237 set_mempolicy:238 move_pages:279 migrate_pages:256 "
    "prctl:157 setsockopt:54 connect:42 bind:49 mount:165 unshare:272 setns:308 ioctl:16 "
    "flock:73 pkey_alloc:330 pkey_mprotect:329 mincore:27 process_madvise:440 memfd_secret:447 "
    "landlock_create_ruleset:444 seccomp:317 swapon:167 fsmount:432 move_mount:429 open_tree:428 "
    "recvfrom:45 recvmmsg:299 read:0 prlimit64:302 setrlimit:160 "
    "sigaltstack:131 remap_file_pages:216 process_vm_readv:310 process_vm_writev:311 "
    "init_module:175 finit_module:313 mq_notify:244 getdents64:217 statx:332 mseal:462"
)
_GENERIC = (
    "mmap:222 mremap:216 brk:214 mprotect:226 munmap:215 madvise:233 mlock:228 mlock2:284 "
    "mlockall:230 clone:220 clone3:435 execve:221 inotify_init1:26 inotify_add_watch:27 "
    "fanotify_init:262 fanotify_mark:263 openat:56 openat2:437 socket:198 socketpair:199 "
    "accept:202 accept4:242 pipe2:59 dup:23 dup3:24 fcntl:25 eventfd2:19 epoll_create1:20 "
    "epoll_ctl:21 timerfd_create:85 signalfd4:74 memfd_create:279 pidfd_open:434 "
    "userfaultfd:282 perf_event_open:241 bpf:280 io_uring_setup:425 io_uring_register:427 "
    "io_uring_enter:426 io_setup:0 io_submit:2 semget:190 semop:193 semtimedop:192 semctl:191 "
    "shmget:194 shmat:196 msgget:186 msgsnd:189 mq_open:180 mq_timedsend:182 timer_create:107 "
    "rt_sigqueueinfo:138 write:64 pwrite64:68 writev:66 pwritev:70 pwritev2:287 fallocate:47 "
    "ftruncate:46 truncate:45 sendfile:71 splice:76 copy_file_range:285 mkdirat:34 renameat:38 "
    "renameat2:276 linkat:37 symlinkat:36 mknodat:33 setxattr:5 fsetxattr:7 fsync:82 "
    "fdatasync:83 msync:227 sendto:206 sendmsg:211 sendmmsg:269 recvmsg:212 add_key:217 "
    "request_key:218 keyctl:219 mbind:235 set_mempolicy:237 move_pages:239 migrate_pages:238 "
    "prctl:167 setsockopt:208 connect:203 bind:200 mount:40 unshare:97 setns:268 ioctl:29 "
    "flock:32 pkey_alloc:289 pkey_mprotect:288 mincore:232 process_madvise:440 memfd_secret:447 "
    "landlock_create_ruleset:444 seccomp:277 swapon:224 fsmount:432 move_mount:429 open_tree:428 "
    "recvfrom:207 recvmmsg:243 read:63 prlimit64:261 setrlimit:164 "
    "sigaltstack:132 remap_file_pages:234 process_vm_readv:270 process_vm_writev:271 "
    "init_module:105 finit_module:273 mq_notify:184 getdents64:61 statx:291 mseal:462"
)
_TABLES = {"x86_64": _X86_64, "aarch64": _GENERIC, "riscv64": _GENERIC}


def _numbers(table: str) -> dict[str, int]:
    pairs = (word.split(":") for word in table.split())
    return {name: int(number) for name, number in pairs}


NUMBERS = _numbers(_TABLES.get(os.uname().machine, ""))
"""By name; empty on an architecture whose numbers are not listed here."""

_NAMES = {number: name for name, number in NUMBERS.items()}


def name(number: int) -> str:
    """The call's name, or `system call 467` of one that is not listed."""
    return _NAMES.get(number, f"system call {number}")
