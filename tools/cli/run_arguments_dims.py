"""The option `--dim`, with which the names in shapes of a model are given extents."""

from __future__ import annotations

import argparse


def add_dim_option(parser: argparse.ArgumentParser) -> None:
    """Let a tool take `--dim NAME=N`, as pairs in `dim`."""
    parser.add_argument(
        "--dim",
        action="append",
        type=dim,
        default=[],
        metavar="NAME=N",
        help="the extent that a name stands for in the shapes of an ONNX model's "
        "inputs; may be given several times",
    )


def dim(text: str) -> tuple[str, int]:
    """The name and extent that a text gives. Raises ArgumentTypeError if it is none."""
    name, _, extent = text.rpartition("=")
    if not name or not extent.isdecimal():
        raise argparse.ArgumentTypeError(f"expected NAME=N, got '{text}'")
    return name, int(extent)
