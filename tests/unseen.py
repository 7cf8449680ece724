"""What the kernel holds back of a process's resident memory.

Each CPU keeps changes of each kind (file, anonymous, shared) to itself until they come to a batch
(Linux 6.2, f1a7941243c1; lib/percpu_counter.c, compute_batch_value). VmRSS, VmHWM, RssAnon and
ru_maxrss are off by that much, in either direction."""

import os

_CPUS = os.cpu_count() or 1
KIND_BYTES = _CPUS * max(32, 2 * _CPUS) * os.sysconf("SC_PAGESIZE")
