"""The commands of `memlab kernels`."""
