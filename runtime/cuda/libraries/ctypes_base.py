"""The base of libraries in C: handles for devices, and calls by `ctypes`."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.runtime.cuda.driver import CudaError, Handle

INT, LONG, POINTER = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p


class CLibrary:
    """
    A loaded library, whose functions all return a status that is 0 if all is well.
    Handles belong to devices; one thread at a time sets the stream of one and launches
    on it. Derive from it.
    """

    # No launch needs an answer.
    is_capturable = True
    creator = ""
    """The function that makes a handle."""
    signatures: Mapping[str, Sequence[Any]] = {}
    """The parameters of the functions that are used."""

    def __init__(self, api: Any):
        self.api = api
        self.handles: dict[int, int] = {}
        self.lock = threading.Lock()
        for name, types in self.signatures.items():
            function = getattr(api, name)
            function.argtypes, function.restype = types, INT

    def call(self, name: str, *args: object) -> None:
        """Call a function. Raises CudaError if it fails."""
        if status := getattr(self.api, name)(*args):
            raise CudaError(f"{name} failed: status {status}")

    def made(self, name: str) -> int:
        """The object that a function writes to the address of its only argument."""
        place = ctypes.c_void_p()
        self.call(name, ctypes.byref(place))
        assert place.value is not None, "it was made"
        return place.value

    def open(self, device: int) -> None:
        """Make a handle for the device in use, if there is none yet."""
        with self.lock:
            if device not in self.handles:
                self.handles[device] = self.handle()

    def handle(self) -> int:
        """A new handle for the device in use."""
        return self.made(self.creator)

    def forget(self, device: int) -> None:
        """Let go of a device whose context is no more, and the handle with it."""
        with self.lock:
            self.handles.pop(device, None)


def address_of(stream: Handle) -> int:
    """A stream of `cuda.bindings`, or a number, as an address."""
    assert hasattr(stream, "__int__"), "streams are addresses"
    return int(stream)  # pyright: ignore[reportArgumentType]
