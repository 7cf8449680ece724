"""One kernel after another: what measures, judges and prints."""
