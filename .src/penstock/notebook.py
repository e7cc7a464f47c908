"""
Objects that notebooks show as pages, by the display protocol of IPython.

    a cell ends with an object
        |  IPython asks for `_repr_html_`
        v
    Displayed                             a base class, below all rooms
        |  tools/reports/notebook.py, imported when it is asked for
        v
    a page, in a frame of its own

This module stands below all rooms, so that each of them can have such objects, and
imports Python alone.
"""

from __future__ import annotations

from importlib import import_module


class Displayed:
    """An object that a notebook shows as a page."""

    def _repr_html_(self) -> str:
        # The makers of pages stand above the objects that they show.
        return import_module("penstock.tools.reports.notebook").html_of(self)
