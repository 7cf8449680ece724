"""A user's own command under other memory policies: `memlab try`."""
