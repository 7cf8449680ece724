"""One kernel after another: what climbs, judges and prints."""
