"""What the machine says: /proc, the environment of a run, and what this process may do."""
