"""Elsewhere: other kernels in guests, other hosts, other days; and what their runs show beside each
other."""
