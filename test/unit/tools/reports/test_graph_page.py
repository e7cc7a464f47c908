"""The graph page: purposes of edges, stages of kernels, and files that it ships."""

from __future__ import annotations

import hashlib
from pathlib import Path

import penstock.tools.reports.view as view

FOLDER = Path(view.__file__).parent / "vendor"


def test_vendored_files_are_what_they_are_said_to_be():
    text = (FOLDER / "VERSIONS.txt").read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    assert [row[0] for row in rows] == ["dagre.min.js"]
    for name, _, _, licence, digest in rows:
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest
        notice = (FOLDER / f"{name}.LEGAL.txt").read_text(encoding="utf-8")
        assert licence == "MIT"
        assert "Permission is hereby granted, free of charge" in notice
