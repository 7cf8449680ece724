"""The probe that runs a command."""
