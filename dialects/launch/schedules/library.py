"""Schedules of contractions that a library computes, such as cuBLAS."""

from __future__ import annotations

from penstock.dialects.launch.schedules.contraction import ContractionSchedule
from penstock.dialects.launch.schedules.fields import text
from penstock.dialects.launch.schedules.schedule import schedule_definition


@schedule_definition
class LibraryAttr(ContractionSchedule):
    """
    The library that computes a contraction on a GPU; it has to be there when the
    program runs.

    ```mlir
    #launch.library<"cublas">
    ```
    """

    name = "launch.library"

    library: str = text()
