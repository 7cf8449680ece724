/*
 * Files of tracefs and debugfs, which need not be mounted.
 */
#ifndef MEMLAB_KERNEL_FS_H
#define MEMLAB_KERNEL_FS_H

#include <stdint.h>

/*
 * Opens `path` of the file system "tracefs" or "debugfs" to read. Where that is not mounted at
 * /sys/kernel, the kernel is asked for an instance that is attached to no place and goes when its
 * last descriptor is closed (fsopen(2) and fsmount(2), Linux 5.2, CAP_SYS_ADMIN): nothing of the
 * host changes. Returns a descriptor, or -1 and errno.
 */
int kernel_fs_open(const char *type, const char *path);

/*
 * The id by which perf_event_open(2) knows the tracepoint "system/event", or a negative errno
 * (-ENOENT: this kernel has none of that name).
 */
int32_t tracepoint_id(const char *name);

#endif
