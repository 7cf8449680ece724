"""The version, apart from the package's face so that every layer may read it."""

__version__ = "0.1.0"
