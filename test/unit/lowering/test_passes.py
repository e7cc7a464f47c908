"""The table of passes, and the files that it names."""

import ast
from collections.abc import Iterator
from pathlib import Path

from penstock import lowering
from penstock.lowering import get_all_passes

ROOT = Path(lowering.__file__).parent


def names_in(path: Path) -> Iterator[str]:
    """The names of the passes that a file defines."""
    for cls in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(cls, ast.ClassDef) or not cls.name.endswith("Pass"):
            continue
        for line in cls.body:
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "name":
                yield ast.literal_eval(line.value)


def test_the_table_has_all_passes_of_all_files() -> None:
    found = [name for path in sorted(ROOT.rglob("*.py")) for name in names_in(path)]
    assert sorted(found) == sorted(get_all_passes())


def test_a_pass_is_in_the_file_of_its_name() -> None:
    for name, load in get_all_passes().items():
        cls = load()
        assert cls.name == name
        file = cls.__module__.removeprefix("penstock.lowering.")
        # `raise-a-to-b` is named after its file alone.
        said = file.replace(".", "-").replace("_", "-")
        assert said.replace("convert-raise-", "raise-") == name
