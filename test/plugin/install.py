"""
Install a package of plain Python as pip does, but without a network or build tools:

    python install.py SITE install [--editable] FOLDER

puts the packages of FOLDER, and what its `pyproject.toml` says of its name and entry
points, into the folder SITE.
"""

import argparse
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path


def install(folder: Path, site: Path) -> None:
    """
    Install all packages and modules that lie in `folder` into `site`.
    """
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    for package in folder.glob("*/__init__.py"):
        shutil.copytree(package.parent, site / package.parent.name, dirs_exist_ok=True)
    for module in folder.glob("*.py"):
        shutil.copy(module, site)
    name, version = project["name"].replace("-", "_"), project["version"]
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n"
    )
    (info / "entry_points.txt").write_text(
        "\n".join(entry_lines(project.get("entry-points", {})))
    )


def entry_lines(groups: Mapping[str, Mapping[str, str]]) -> Sequence[str]:
    """The lines of `entry_points.txt` for the entry points of each group."""
    lines: list[str] = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{name} = {at}" for name, at in entries.items())]
    return lines


def main() -> None:
    """Install what the arguments name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("site", type=Path)
    parser.add_argument("action", choices=["install"])
    parser.add_argument("--editable", "-e", action="store_true")
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    install(args.folder, args.site)


if __name__ == "__main__":
    main()
