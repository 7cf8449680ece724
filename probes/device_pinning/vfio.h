/*
 * A VFIO container with one group of devices, as far as mapping memory for them needs it (the
 * kernel's driver-api/vfio.rst). No device is opened or used.
 */
#ifndef MEMLAB_VFIO_H
#define MEMLAB_VFIO_H

#include <stddef.h>

struct vfio {
	int container; /* -1: none */
	int group;
	char path[32]; /* of the group */
};

#define VFIO_NONE { .container = -1, .group = -1 }

/* What this machine lacks and what to do; NULL: it has an IOMMU and a group that VFIO holds. */
const char *vfio_lacks(void);

/* Opens the first group in /dev/vfio under an IOMMU of type 1. Returns 0, or -1 and errno. */
int vfio_open(struct vfio *vfio);

/* Maps memory for the group's devices to read and write. Returns 0, or -1 and errno. */
int vfio_map(const struct vfio *vfio, void *memory, size_t size_bytes);

/* Unmaps it. Returns 0, or -1 and errno. */
int vfio_unmap(const struct vfio *vfio, size_t size_bytes);

void vfio_close(struct vfio *vfio);

#endif
