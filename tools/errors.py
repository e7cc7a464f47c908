"""Errors that need no library to be raised, told or caught."""


class UsageError(Exception):
    """The command line asks for what cannot be done."""


class InternalError(Exception):
    """A defect in `where`, shown by the exception that caused this one."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where


def printable(text: str) -> str:
    """Escape what would confuse a terminal."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text
    )


def explain_os_error(error: OSError) -> str:
    """Return the system's own words, in lower case."""
    return (error.strerror or str(error)).lower()
