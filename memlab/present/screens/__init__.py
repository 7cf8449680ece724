"""What commands print for people: a run, claims and comparisons, on one screen each."""
