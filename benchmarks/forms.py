"""
The kernels of whole models, and the forms that are compiled for them.

    python benchmarks/forms.py               # all light models, and those of PyTorch
    python benchmarks/forms.py densenet121 resnet

A form is the source of a kernel without its head: kernels of one form share machine
code (docs/architecture/kernel-arguments.md). A form is shared if another of the models
has it, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.kernels.inputs import lines_of_models
from benchmarks.kernels.variants import Variant
from benchmarks.models import exported_models, light_models
from penstock.runtime.jit.source_head import split_head


def forms_of(model: str) -> list[str]:
    """The form of each kernel of the model of a name, for vectors of 64 bytes."""
    lines = lines_of_models(model, (Variant("cpu"),))
    return [split_head(line.text).code for line in lines]


def counts(
    forms: Mapping[str, Sequence[str]],
) -> Iterator[tuple[str, int, int, int]]:
    """For each model its name, its kernels, its forms, and the shared ones of these."""
    for name, own in forms.items():
        others = {form for other in forms if other != name for form in forms[other]}
        yield name, len(own), len({*own}), len({*own} & others)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each model, and one for all of them."""
    first, _, rest = (__doc__ or "").strip().partition("\n\n")
    parser = argparse.ArgumentParser(description=first, epilog=rest)
    parser.add_argument("models", nargs="*", help="names of models; all by default")
    only = parser.parse_args(argv).models
    names = [name for name, _ in chain(light_models(only), exported_models(only))]
    forms = {name: forms_of(name) for name in names}
    print(f"{'model':16} kernels  forms  shared")
    for name, kernels, own, shared in counts(forms):
        print(f"{name:16} {kernels:7}  {own:5}  {shared:6}")
    every = [*chain(*forms.values())]
    print(f"{'all':16} {len(every):7}  {len({*every}):5}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
