"""How to install what Penstock can do without."""

from importlib.metadata import PackageNotFoundError, requires


def how_to_install(extra: str) -> str:
    """
    The command that installs the packages of an extra of Penstock: by their own names,
    as nobody knows where Penstock itself was installed from.
    """
    try:
        known = requires("penstock") or ()
    except PackageNotFoundError:
        known = ()
    mark = f'extra == "{extra}"'
    parts = (requirement.partition(";") for requirement in known)
    wanted = [name.strip() for name, _, marker in parts if marker.strip() == mark]
    names = " ".join(f"'{name}'" for name in wanted)
    return f"pip install {names}" if names else f"the extra '{extra}' of Penstock"
