"""Lists of the hashes of kernels' sources, and how two of them differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

LIST = "kernels.txt"
"""The list in a folder that also holds the sources."""


class Entry(NamedTuple):
    """A kernel, `<program>.<number>:<name>`, and the hash of its source."""

    kernel: str
    key: str

    @property
    def name(self) -> str:
        """The label without the number, which changes with kernels before it."""
        program, _, rest = self.kernel.partition(".")
        return f"{program}:{rest.partition(':')[2]}"


class Difference(NamedTuple):
    """A kernel of a case that is not as it was; None where there is none."""

    case: str
    old: Entry | None
    new: Entry | None


def list_at(path: Path) -> Path:
    """The list of a folder, or the file itself."""
    return path / LIST if path.is_dir() else path


def read_list(path: Path) -> dict[str, list[Entry]]:
    """The kernels of each case."""
    cases: dict[str, list[Entry]] = {}
    for line in list_at(path).read_text("utf-8").splitlines():
        key, case, kernel = line.split(" ", 2)
        cases.setdefault(case, []).append(Entry(kernel, key))
    return cases


def differences(
    old: Mapping[str, list[Entry]], new: Mapping[str, list[Entry]]
) -> Iterator[Difference]:
    """
    The kernels that differ, case by case. Equal sources are equal whatever their names
    are; of the others those of one name belong together, then those in one order.
    """
    for case in dict.fromkeys((*old, *new)):
        yield from _of_case(case, old.get(case, []), new.get(case, []))


def _of_case(case: str, old: list[Entry], new: list[Entry]) -> Iterator[Difference]:
    was, now = _without(old, new), _without(new, old)
    by_name: dict[str, list[Entry]] = {}
    for entry in now:
        by_name.setdefault(entry.name, []).append(entry)
    lonely: list[Entry] = []
    for entry in was:
        same = by_name.get(entry.name)
        if same:
            partner = same.pop(0)
            now.remove(partner)
            yield Difference(case, entry, partner)
        else:
            lonely.append(entry)
    for number in range(max(len(lonely), len(now))):
        first = lonely[number] if number < len(lonely) else None
        second = now[number] if number < len(now) else None
        yield Difference(case, first, second)


def _without(entries: Iterable[Entry], others: Iterable[Entry]) -> list[Entry]:
    """The entries whose sources others do not have, each as often as they have it."""
    counts = Counter(entry.key for entry in others)
    left: list[Entry] = []
    for entry in entries:
        if counts[entry.key]:
            counts[entry.key] -= 1
        else:
            left.append(entry)
    return left


def pairs_of(found: Iterable[Difference]) -> dict[tuple[str, str], list[Difference]]:
    """Differences by the hashes before and after, "" where there is none."""
    pairs: dict[tuple[str, str], list[Difference]] = {}
    for each in found:
        key = each.old.key if each.old else "", each.new.key if each.new else ""
        pairs.setdefault(key, []).append(each)
    return pairs


def compare(old: Path, new: Path, diffs: int, *, common: bool = False) -> int:
    """Print how two lists differ, or the cases that both have; 1 if they do."""
    before, after = read_list(old), read_list(new)
    if common:
        before = {case: before[case] for case in before if case in after}
        after = {case: after[case] for case in after if case in before}
    pairs = pairs_of(differences(before, after))
    for shown, (keys, found) in enumerate(pairs.items()):
        for each in found:
            print(_line(each))
        if shown < diffs:
            print("".join(diff(*keys, _folder(old), _folder(new))))
    kernels = sum(map(len, after.values()))
    changed = sum(map(len, pairs.values()))
    former = sum(map(len, before.values()))
    print(f"{kernels} kernels in {len(after)} cases, {former} before")
    print(f"kernels that differ: {changed} ({len(pairs)} different pairs of sources)")
    return int(bool(pairs))


def _line(each: Difference) -> str:
    was = each.old.kernel if each.old else "(none)"
    now = each.new.kernel if each.new else "(none)"
    return f"{each.case} {was}" + ("" if was == now else f" -> {now}")


def _folder(path: Path) -> Path:
    return list_at(path).parent


def diff(old: str, new: str, before: Path, after: Path) -> Iterator[str]:
    """The lines of the diff of two sources, if both are kept."""
    texts = [source_in(before, old), source_in(after, new)]
    if None in texts:
        yield "(sources are not kept: run with --keep)\n"
        return
    was, now = ((text or "").splitlines(keepends=True) for text in texts)
    yield from unified_diff(was, now, f"old/{old[:12]}", f"new/{new[:12]}")


def source_in(folder: Path, key: str) -> str | None:
    """The source of a hash that a folder keeps; nothing for the hash of nothing."""
    if not key:
        return ""
    path = folder / f"{key}.py"
    return path.read_text("utf-8") if path.is_file() else None
