"""Where trials can run beside this host."""
