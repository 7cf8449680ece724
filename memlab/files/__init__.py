"""Files that memlab writes: in whose folders, and whole or not at all."""
