"""The runs of one host over time: what judges and prints."""
