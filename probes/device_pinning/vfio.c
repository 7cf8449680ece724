#include "vfio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Above 4 GiB, and so above the doorbells of interrupts (iommu groups' reserved_regions). */
#define DEVICE_ADDRESS ((uint64_t)1 << 32)

/* The first entry of a directory that begins with a digit, as groups are named. */
static bool first_group(const char *directory, char *name, size_t size)
{
	const struct dirent *entry;
	DIR *folder = opendir(directory);

	if (!folder)
		return false;
	do
		entry = readdir(folder);
	while (entry && (entry->d_name[0] < '0' || entry->d_name[0] > '9'));
	if (entry)
		snprintf(name, size, "%.16s", entry->d_name);
	closedir(folder);
	return entry != NULL;
}

const char *vfio_lacks(void)
{
	char name[32];

	if (!first_group("/sys/kernel/iommu_groups", name, sizeof(name)))
		return "/sys/kernel/iommu_groups is empty, so there is no IOMMU: boot with "
		       "intel_iommu=on or amd_iommu=on, or try --in guest,iommu";
	if (!first_group("/dev/vfio", name, sizeof(name)))
		return "/dev/vfio has no group: modprobe vfio-pci and bind a device that the host "
		       "can spare (driverctl set-override ADDRESS vfio-pci)";
	return NULL;
}

int vfio_open(struct vfio *vfio)
{
	char name[32];

	if (!first_group("/dev/vfio", name, sizeof(name))) {
		errno = ENODEV;
		return -1;
	}
	snprintf(vfio->path, sizeof(vfio->path), "/dev/vfio/%.16s", name);
	vfio->container = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
	vfio->group = open(vfio->path, O_RDWR | O_CLOEXEC);
	if (vfio->container == -1 || vfio->group == -1)
		return -1;
	if (ioctl(vfio->group, VFIO_GROUP_SET_CONTAINER, &vfio->container) == -1)
		return -1;
	return ioctl(vfio->container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU);
}

int vfio_map(const struct vfio *vfio, void *memory, size_t size_bytes)
{
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uint64_t)(uintptr_t)memory,
		.iova = DEVICE_ADDRESS,
		.size = size_bytes,
	};

	return ioctl(vfio->container, VFIO_IOMMU_MAP_DMA, &map);
}

int vfio_unmap(const struct vfio *vfio, size_t size_bytes)
{
	struct vfio_iommu_type1_dma_unmap unmap = {
		.argsz = sizeof(unmap),
		.iova = DEVICE_ADDRESS,
		.size = size_bytes,
	};

	return ioctl(vfio->container, VFIO_IOMMU_UNMAP_DMA, &unmap);
}

void vfio_close(struct vfio *vfio)
{
	if (vfio->group != -1)
		close(vfio->group);
	if (vfio->container != -1)
		close(vfio->container);
	vfio->group = vfio->container = -1;
}
