"""Numbers in, numbers out: intervals, comparison, claims, cost models.

Pure functions of arrays: nothing here reads, writes or knows what a sample was. Import the
module that holds the function; see docs/statistics.md for the rules in plain words.
"""
