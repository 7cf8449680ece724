"""What ends a diagnosis before there is one."""


class BadSubject(Exception):
    """The number given is of no process that has memory of its own."""


class CannotLook(Exception):
    """The process may not be read, or it has ended."""
