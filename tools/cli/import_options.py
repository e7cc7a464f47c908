"""
The options of how an ONNX model is imported: `--dim`, which gives extents to names in
its shapes, `--max`, which bounds loops, and `--separate-weights`.
"""

from __future__ import annotations

import argparse


def add_dim_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--dim NAME=N` to a parser, as pairs in `dim`."""
    parser.add_argument(
        "--dim",
        action="append",
        type=dim,
        default=[],
        metavar="NAME=N",
        help="the extent that a name stands for in the shapes of an ONNX model's "
        "inputs; may be given several times",
    )


def add_max_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--max NAME=N` to a parser, as pairs in `max`."""
    parser.add_argument(
        "--max",
        action="append",
        type=dim,
        default=[],
        metavar="NAME=N",
        help="the most iterations that a loop of an ONNX model makes, or elements that "
        "NonZero, Compress or NonMaxSuppression finds, if that is only known at run "
        "time; may be given several times",
    )


def add_separate_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--separate-weights` to a parser."""
    parser.add_argument(
        "--separate-weights",
        action="store_true",
        help="let weights that are equal when a model is read be several variables, "
        "which a state may set to different arrays",
    )


def dim(text: str) -> tuple[str, int]:
    """
    The name and extent in a text.

    Raises ArgumentTypeError if it has none.
    """
    name, _, extent = text.rpartition("=")
    if not name or not extent.isdecimal():
        raise argparse.ArgumentTypeError(f"expected NAME=N, got '{text}'")
    return name, int(extent)
