"""
Figures of benchmarks as JSON: one file a section, processor, commit and day.

    {"format": 1, "section": "gemm", "title": "...", "text": "...",
     "processor": "...", "cores": 2, "commit": "f901b7b", "date": "2026-11-21",
     "rounds": 9, "versions": {"numpy": "2.4.6"}, "notes": ["..."],
     "tables": [{"title": "case", "note": "", "summary": {},
       "cases": [{"case": "512x512x512", "threads": 1, "limit": null,
         "ours": [{"name": "Penstock", "ms": 1.207, "best": 1.173, "worst": 1.257}],
         "peers": [{"name": "ONNX Runtime", "ms": 1.261, "ratio": 1.04}]}]}]}

`ratio` is the time of a contender over that of the first of `ours`. `limit` says which
bound a case cannot pass, or is null where none is known. Figures are numbers in the
unit of their name, or texts with a unit. `benchmarks/run.py --write docs/benchmarks`
writes these files, and `make docs` the page of all of them, `docs/benchmarks.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import TypeAlias, cast

FORMAT = 1
"""The number of this format."""

Value: TypeAlias = int | float | str


class FiguresError(Exception):
    """A file of figures is not in the format."""


@dataclass(frozen=True)
class Contender:
    """The figures of one contender in one case."""

    name: str
    figures: Mapping[str, Value]


@dataclass(frozen=True)
class Case:
    """One thing that was measured: ours, the first being the reference, and peers."""

    case: str
    ours: Sequence[Contender]
    peers: Sequence[Contender] = ()
    threads: int | None = None
    limit: str | None = None


@dataclass(frozen=True)
class FigureTable:
    """Cases with the same figures."""

    title: str
    """A noun for the cases."""
    cases: Sequence[Case]
    summary: Mapping[str, Value] = field(default_factory=dict[str, Value])
    """Figures of all cases together, such as means."""
    note: str = ""


@dataclass(frozen=True)
class Measurement:
    """A section of benchmarks, measured at one commit on one processor."""

    section: str
    """The name of the benchmark."""
    title: str
    text: str
    processor: str
    cores: int
    commit: str
    date: str
    rounds: int
    versions: Mapping[str, str]
    tables: Sequence[FigureTable]
    notes: Sequence[str] = ()

    @property
    def file_name(self) -> str:
        """The name of its file, which says section, processor, day and commit."""
        processor = re.sub(r"[^a-z0-9]+", "-", self.processor.lower()).strip("-")
        return f"{self.section}-{processor}-{self.date}-{self.commit}.json"


def as_json(found: Measurement) -> str:
    """The text of the file of a measurement: a line for each case."""
    facts = {"format": FORMAT, **asdict(found)}
    del facts["tables"]
    head = json.dumps(facts, indent=1).removesuffix("\n}")
    tables = ",\n".join(map(_table_text, found.tables))
    return f'{head},\n "tables": [\n{tables}\n ]\n}}\n'


def _table_text(table: FigureTable) -> str:
    facts = {"title": table.title, "note": table.note, "summary": {**table.summary}}
    rows = ",\n".join(f"   {json.dumps(_case_data(case))}" for case in table.cases)
    return f'  {json.dumps(facts)[:-1]}, "cases": [\n{rows}\n  ]}}'


def _case_data(case: Case) -> dict[str, object]:
    return {
        "case": case.case,
        "threads": case.threads,
        "ours": [{"name": each.name, **each.figures} for each in case.ours],
        "peers": [{"name": each.name, **each.figures} for each in case.peers],
        "limit": case.limit,
    }


def read_measurements(folder: Path) -> list[Measurement]:
    """
    All measurements in a folder, by section and then the latest first.

    Raises `FiguresError` for a file that is not in the format, or has another name.
    """
    found = [read_measurement(path) for path in sorted(folder.glob("*.json"))]
    found.sort(key=lambda each: (each.date, each.commit), reverse=True)
    return sorted(found, key=lambda each: each.section)


def read_measurement(path: Path) -> Measurement:
    """The measurement in a file. Raises `FiguresError` if it is not in the format."""
    try:
        data = cast("object", json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise FiguresError(f"{path.name}: {error}") from error
    try:
        found = _measurement(data)
    except FiguresError as error:
        raise FiguresError(f"{path.name}: {error}") from error
    if found.file_name != path.name:
        raise FiguresError(f"{path.name}: expected the name {found.file_name}")
    return found


################################################################################
# Checks                                                                       #
################################################################################


def _measurement(data: object) -> Measurement:
    facts = _mapping("the file", data)
    if facts.get("format") != FORMAT:
        raise FiguresError(f"expected format {FORMAT}, got {facts.get('format')!r}")
    known = {"format", *Measurement.__dataclass_fields__}
    if facts.keys() != known:
        odd = sorted(facts.keys() ^ known)
        raise FiguresError(f"missing or unknown: {', '.join(odd)}")
    texts = {key: _text(key, facts[key]) for key in _TEXTS}
    _check_day_and_commit(texts)
    versions = _mapping("versions", facts["versions"])
    return Measurement(
        **texts,
        cores=_count("cores", facts["cores"]),
        rounds=_count("rounds", facts["rounds"]),
        versions={name: _text(name, number) for name, number in versions.items()},
        notes=[_text("notes", note) for note in _list("notes", facts["notes"])],
        tables=[_table(table) for table in _list("tables", facts["tables"])],
    )


_TEXTS = ("section", "title", "text", "processor", "commit", "date")


def _check_day_and_commit(texts: Mapping[str, str]) -> None:
    try:
        date.fromisoformat(texts["date"])
    except ValueError as error:
        raise FiguresError(f"date: {error}") from error
    if not re.fullmatch(r"[0-9a-f]{7,40}", texts["commit"]):
        raise FiguresError(f"commit: expected 7 to 40 digits, got {texts['commit']!r}")
    if not re.fullmatch(r"[a-z]+", texts["section"]):
        raise FiguresError(f"section: expected a name, got {texts['section']!r}")


def _table(data: object) -> FigureTable:
    facts = _mapping("a table", data)
    _check_keys("a table", facts, ("title", "note", "summary", "cases"))
    cases = [_case(case) for case in _list("cases", facts["cases"])]
    names = [(case.case, case.threads) for case in cases]
    for name, threads in names:
        if names.count((name, threads)) > 1:
            raise FiguresError(f"case {name!r} is there twice with threads {threads}")
    note = facts["note"]
    if not isinstance(note, str):
        raise FiguresError(f"note: expected a text, got {note!r}")
    summary = _mapping("summary", facts["summary"])
    return FigureTable(_text("title", facts["title"]), cases, _values(summary), note)


def _case(data: object) -> Case:
    facts = _mapping("a case", data)
    _check_keys("a case", facts, ("case", "threads", "ours", "peers", "limit"))
    threads, limit = facts["threads"], facts["limit"]
    case = Case(
        _text("case", facts["case"]),
        [_contender(each) for each in _list("ours", facts["ours"])],
        [_contender(each) for each in _list("peers", facts["peers"])],
        None if threads is None else _count("threads", threads),
        None if limit is None else _text("limit", limit),
    )
    if not case.ours:
        raise FiguresError(f"case {case.case!r} has no figures of ours")
    return case


def _contender(data: object) -> Contender:
    facts = _mapping("a contender", data)
    if "name" not in facts:
        raise FiguresError("a contender has no name")
    figures = {key: value for key, value in facts.items() if key != "name"}
    return Contender(_text("name", facts["name"]), _values(figures))


def _values(facts: Mapping[str, object]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, value in facts.items():
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise FiguresError(f"{name}: expected a figure, got {value!r}")
        found[name] = value
    return found


def _check_keys(what: str, facts: Mapping[str, object], keys: Sequence[str]) -> None:
    if odd := sorted(facts.keys() ^ {*keys}):
        raise FiguresError(f"{what}: missing or unknown: {', '.join(odd)}")


def _mapping(what: str, data: object) -> dict[str, object]:
    if not isinstance(data, dict):
        raise FiguresError(f"{what}: expected an object, got {data!r}")
    return dict(_items(cast("dict[object, object]", data)))


def _items(data: Mapping[object, object]) -> Iterator[tuple[str, object]]:
    for key, value in data.items():
        yield str(key), value


def _list(what: str, data: object) -> list[object]:
    if not isinstance(data, list):
        raise FiguresError(f"{what}: expected a list, got {data!r}")
    return cast("list[object]", data)


def _text(what: str, data: object) -> str:
    if not isinstance(data, str) or not data:
        raise FiguresError(f"{what}: expected a text, got {data!r}")
    return data


def _count(what: str, data: object) -> int:
    if isinstance(data, bool) or not isinstance(data, int) or data < 1:
        raise FiguresError(f"{what}: expected a number from 1 on, got {data!r}")
    return data
