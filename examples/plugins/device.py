"""A kind of device: a part of the CPU's memory, in which all that moves is counted."""

from penstock.plugins import register
from penstock.runtime.loading.devices import Cpu

PENSTOCK_INTERFACE = "0.2"


class Counted(Cpu):
    """Runs kernels as the CPU does, and knows what was allocated and is copied."""

    def __init__(self):
        super().__init__()
        self.allocated = 0

    def allocate(self, size, number=0):
        self.allocated += size
        print(f"device {number} has {self.allocated} bytes")
        return super().allocate(size, number)


@register("device", "counted")
def open_counted():
    """A device whose memory is that of the host, but apart."""
    return Counted()
