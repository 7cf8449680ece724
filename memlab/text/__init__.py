"""Text that people write and read: quantities in it, and what of it is printable."""
