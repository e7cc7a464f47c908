"""The error of data that cannot be read, or asked for in this way."""

from penstock.runtime.errors import PenstockError


class DataError(PenstockError):
    """Data cannot be read, or cannot be asked for in this way; the text says why."""
