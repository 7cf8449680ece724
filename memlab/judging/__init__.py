"""Claims judged on stored runs: verdicts, reproduction, comparison."""
