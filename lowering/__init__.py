"""The passes of Penstock, by name. Importing this module imports none of them."""

from collections.abc import Callable

from xdsl.passes import ModulePass


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Map each pass's name to a function that imports and returns it."""

    return {}
