"""
Compile, run and check the main examples, as `make demo` does:

    python examples/demo.py

Exits with 1 if a check fails. Each example is a call of `penstock-run`, which is shown
as you would type it.
"""

import shlex
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx

from penstock.tools.cli.run import run_tool

EXAMPLES = Path(__file__).parent
SQUEEZENET = (
    Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
)
LEAST_ACCURACY = 0.95


def main() -> None:
    """Run all examples, and say which of them failed."""
    print("Each example is compiled level by level, run and checked.", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        results = {
            "digits": digits(Path(folder) / "probabilities.npz"),
            "encoder": encoder(),
            "plan": plan(),
            "program": program(Path(folder)),
            "squeezenet": squeezenet(),
        }
    failed = [name for name, passed in results.items() if not passed]
    print(f"\n{len(results) - len(failed)} of {len(results)} examples passed")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def run(explanation: str, *arguments: str | Path) -> bool:
    """Explain, show and run one `penstock-run`; returns whether it succeeded."""
    texts = [str(argument) for argument in arguments]
    short = [_shorten(text) for text in texts]
    print(f"\n{explanation}\n$ penstock-run {shlex.join(short)}", flush=True)
    passed = run_tool(texts) == 0
    sys.stdout.flush()
    return passed


def _shorten(text: str) -> str:
    """A path as its file name, so that the lines can be read."""
    return Path(text).name if Path(text).is_absolute() else text


def digits(outputs: Path) -> bool:
    """
    Classify images, and compare with NumPy and with what the images really show.
    """
    explanation = (
        "A job written by hand, with trained weights from a file, tells which "
        "digits\n180 images show. Its result must be that of NumPy:"
    )
    inputs = EXAMPLES / "digits-test.npz"
    arguments = ("--inputs", inputs, "--outputs", outputs, "--check", "numpy")
    if not run(explanation, EXAMPLES / "digits.mlir", *arguments):
        return False
    with np.load(outputs) as found, np.load(EXAMPLES / "digits-labels.npz") as known:
        right = np.argmax(found["probabilities"], axis=1) == known["label"]
    accuracy = float(right.mean())
    print(f"{right.sum()} of {right.size} digits are right ({accuracy:.1%})")
    return accuracy >= LEAST_ACCURACY


def encoder() -> bool:
    """A layer of a transformer, compared with NumPy."""
    explanation = "One layer of a transformer encoder, compared with NumPy:"
    arguments = ("--random-inputs", "1", "--check", "numpy")
    return run(explanation, EXAMPLES / "encoder.mlir", *arguments)


def plan() -> bool:
    """A plan that somebody wrote, compared with NumPy."""
    explanation = (
        "A plan written by hand, tasks, registers and all, compared with NumPy:"
    )
    arguments = ("--random-inputs", "1", "--check", "numpy")
    return run(explanation, EXAMPLES / "plan.mlir", *arguments)


def program(folder: Path) -> bool:
    """A launch program that somebody wrote, compared with what it should compute."""
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    inputs, wanted = folder / "x.npz", folder / "squares.npz"
    np.savez(inputs, x=x)
    np.savez(wanted, y=(x.astype(np.float64) ** 2).sum(axis=1).astype(np.float32))
    explanation = (
        "A launch program written by hand, with a kernel of its own, compared with "
        "a file\nof sums of squares:"
    )
    arguments = ("--inputs", inputs, "--check", wanted)
    return run(explanation, EXAMPLES / "program.mlir", *arguments)


def squeezenet() -> bool:
    """An ONNX model with random weights, compared with ONNX Runtime."""
    explanation = (
        "SqueezeNet, as it comes with the onnx package. Its weights there are all "
        "alike,\nso random ones replace them. ONNX Runtime must agree:"
    )
    random = ("--random-weights", "1", "--random-inputs", "2")
    return run(explanation, SQUEEZENET, *random, "--check", "onnxruntime")


if __name__ == "__main__":
    main()
