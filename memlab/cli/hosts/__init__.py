"""The commands of `memlab hosts`."""
