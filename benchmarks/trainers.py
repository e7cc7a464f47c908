"""
The contenders of training: a step of a network in Penstock, PyTorch and JAX.

The run of a contender is one step on the same batch. Its outputs are the losses of the
first steps, which are made when it is opened: they differ between steps only if weights
are updated, and between contenders only if one of them computes something else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

import penstock
from benchmarks.jax_runs import start_jax
from benchmarks.networks import ADAMW, DEEP, SEED, SMALL, TRAININGS, Rule, Training
from benchmarks.sessions import penstock_run
from penstock import Tensor
from penstock.tools.session.session import Session

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from benchmarks.harness import Run
    from penstock.tools.session.session import Model

STEPS = 3
"""The steps whose losses are compared."""
DECAY, SHARE_KEPT = 0.01, 0.9
"""The weight decay of AdamW, and the share of its direction that momentum keeps."""

FORWARD, BACKWARD, STEP = "forward", "with backward", "step"
PARTS = (FORWARD, BACKWARD, STEP)
"""The parts of a step: the loss, this with all gradients, and this with updates."""

ops: Any = penstock.ops


def training_of(name: str) -> Training:
    """The training of a name."""
    return {**TRAININGS, **DEEP, **SMALL}[name]()


def checked(step: Callable[[], float]) -> Run:
    """The runs of a step, whose outputs are the losses of the first ones."""
    losses = np.array([step() for _ in range(STEPS)])

    def run() -> Sequence[Any]:
        step()
        return [losses]

    return run


################################################################################
# Penstock                                                                     #
################################################################################


class PenstockFunctions:
    """The functions of networks as ops of ours."""

    def relu(self, x: Any) -> Any:
        """`op.relu`."""
        return ops.relu(x)

    def gelu(self, x: Any) -> Any:
        """`op.gelu`."""
        return ops.gelu(x, approximate="tanh")

    def relu6(self, x: Any) -> Any:
        """`op.clip`."""
        return np.clip(x, 0, 6)

    def conv(self, x: Any, w: Any, stride: int, groups: int) -> Any:
        """`op.conv2d`."""
        pads = [w.shape[2] // 2] * 4
        return ops.conv2d(x, w, strides=[stride] * 2, pads=pads, groups=groups)

    def batch_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        """`op.batch_norm`."""
        return ops.batch_norm(x, scale, bias, *ops.batch_norm_statistics(x))

    def max_pool(self, x: Any) -> Any:
        """`op.max_pool2d`."""
        return ops.max_pool2d(x, kernel=[3, 3], strides=[2, 2], pads=[1] * 4)

    def mean_pixel(self, x: Any) -> Any:
        """`op.reduce_mean`."""
        return x.mean(axis=(2, 3))

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        """`op.layer_norm`."""
        return ops.layer_norm(x, scale, bias)

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        """`op.attention`."""
        return ops.attention(q, k, v, causal=0, scale=q.shape[-1] ** -0.5)

    def lookup(self, table: Any, numbers: Any) -> Any:
        """`op.gather`."""
        return table[numbers]

    def permute(self, x: Any, axes: Sequence[int]) -> Any:
        """`op.transpose`."""
        return np.transpose(x, axes)

    def split(self, x: Any, count: int) -> Sequence[Any]:
        """`op.split`."""
        return np.split(x, count, axis=-1)

    def lstm(self, x: Any, w: Any, r: Any, bias: Any) -> Any:
        """`op.loop`."""
        zero = np.zeros((x.shape[1], r.shape[0]), np.float32)

        def cell(state: Any, gates: Any) -> Any:
            h, c = state
            i, f, g, o = np.split(gates + h @ r, 4, axis=1)
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * np.tanh(g)
            h = ops.sigmoid(o) * np.tanh(c)
            return (h, c), h

        return ops.loop(cell, (zero, zero), x @ w + bias)[1]

    def loss(self, scores: Any, labels: Any) -> Any:
        """`op.softmax_cross_entropy`."""
        return ops.cross_entropy(scores, labels)


def penstock_optimizer(rule: Rule) -> penstock.optim.Optimizer:
    """An optimizer of ours."""
    kind, rate = rule
    if kind == "adamw":
        return penstock.optim.AdamW(rate, weight_decay=DECAY)
    if kind == "momentum":
        return penstock.optim.Momentum(rate, momentum=SHARE_KEPT)
    return penstock.optim.SGD(rate)


def job_of(training: Training, part: str) -> Model:
    """The job of a part of a step."""
    weights, (x, labels) = training.weights(), training.drawn_batch()

    def loss_of(x: Tensor, labels: Tensor) -> Any:
        by_name = {n: penstock.variable(n, init=w) for n, w in weights.items()}
        return training.loss(PenstockFunctions(), by_name, x, labels)

    def step(x: Tensor, labels: Tensor) -> object:
        if part == FORWARD:
            return loss_of(x, labels)
        loss, gradients = penstock.value_and_grad(loss_of)(x, labels)
        if part == BACKWARD:
            return loss, gradients
        penstock_optimizer(training.rule).update(gradients)
        return loss

    step.__annotations__ = {
        "x": Annotated[Tensor, x.shape, x.dtype.type],
        "labels": Annotated[Tensor, labels.shape, labels.dtype.type],
    }
    return penstock.job(step).trace().model()


def training_steps(only: Collection[str] = ()) -> Iterator[tuple[str, ModuleOp]]:
    """The jobs of steps by the names of trainings; of these only, if there are some."""
    for name in TRAININGS:
        if not only or name in only:
            yield name, job_of(training_of(name), STEP).module


def open_penstock(name: str, part: str, threads: int) -> Run:
    """A session of ours."""
    training = training_of(name)
    x, labels = training.drawn_batch()
    inputs = {"x": x, "labels": labels}
    session = Session(job_of(training, part), threads=threads)
    loss = "out.0" if part == BACKWARD else "out"
    return checked(lambda: float(session.run(inputs)[loss]))


################################################################################
# PyTorch                                                                      #
################################################################################


class TorchFunctions:
    """The functions of networks in PyTorch."""

    def __init__(self) -> None:
        self._torch = import_module("torch")
        self._of: Any = self._torch.nn.functional
        # Its layers are kernels of their own, which `torch.compile` takes as they are.
        self._lstm: Any = self._torch.compiler.disable(self._layer)

    def relu(self, x: Any) -> Any:
        """The larger of each element and 0."""
        return self._of.relu(x)

    def gelu(self, x: Any) -> Any:
        """The GELU of each element."""
        return self._of.gelu(x, approximate="tanh")

    def relu6(self, x: Any) -> Any:
        """Each element clipped."""
        return self._of.relu6(x)

    def conv(self, x: Any, w: Any, stride: int, groups: int) -> Any:
        """A convolution."""
        return self._of.conv2d(x, w, None, stride, w.shape[2] // 2, groups=groups)

    def batch_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        """Channels normalized."""
        return self._of.batch_norm(x, None, None, scale, bias, training=True)

    def max_pool(self, x: Any) -> Any:
        """The largest of windows."""
        return self._of.max_pool2d(x, 3, 2, 1)

    def mean_pixel(self, x: Any) -> Any:
        """The mean of images."""
        return x.mean((2, 3))

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        """Rows normalized."""
        return self._of.layer_norm(x, scale.shape, scale, bias)

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        """Causal attention."""
        return self._of.scaled_dot_product_attention(q, k, v, is_causal=True)

    def lookup(self, table: Any, numbers: Any) -> Any:
        """Rows of a table."""
        return self._of.embedding(numbers, table)

    def permute(self, x: Any, axes: Sequence[int]) -> Any:
        """Axes in another order."""
        return x.permute(*axes)

    def split(self, x: Any, count: int) -> Sequence[Any]:
        """Equal parts of rows."""
        return x.chunk(count, -1)

    def lstm(self, x: Any, w: Any, r: Any, bias: Any) -> Any:
        """A layer of its own."""
        return self._lstm(x, w.t(), r.t(), bias)

    def _layer(self, x: Any, w: Any, r: Any, bias: Any) -> Any:
        state = x.new_zeros(1, x.shape[1], r.shape[1])
        weights = [w, r, bias, self._torch.zeros_like(bias)]
        # Biases, one layer, no dropout, training, one direction, steps first.
        settings = True, 1, 0.0, True, False, False
        return self._torch._VF.lstm(x, (state, state), weights, *settings)[0]

    def loss(self, scores: Any, labels: Any) -> Any:
        """The mean cross entropy."""
        return self._of.cross_entropy(scores, labels)


def torch_step(
    name: str, part: str, threads: int, *, compiles: bool, backend: str = "inductor"
) -> Any:
    """A part of a step that returns its loss, with kernels fused in the optimizer."""
    torch = import_module("torch")
    torch.set_num_threads(threads)
    training, functions = training_of(name), TorchFunctions()
    weights = {
        key: torch.from_numpy(value).requires_grad_()
        for key, value in training.weights().items()
    }
    x, labels = map(torch.from_numpy, training.drawn_batch())
    optimizer = torch_optimizer(training.rule, [*weights.values()])

    def loss_of(weights: Mapping[str, Any], x: Any, labels: Any) -> Any:
        return training.loss(functions, weights, x, labels)

    loss_now = torch.compile(loss_of, backend=backend) if compiles else loss_of

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_now(weights, x, labels)
        if part != FORWARD:
            loss.backward()
        if part == STEP:
            optimizer.step()
        return loss.item()

    return step


def torch_optimizer(rule: Rule, weights: Sequence[Any]) -> Any:
    """PyTorch's optimizer with one kernel for a weight."""
    optim, rate = import_module("torch").optim, rule.rate
    if rule.kind == "adamw":
        return optim.AdamW(weights, rate, weight_decay=DECAY, fused=True)
    momentum = SHARE_KEPT if rule.kind == "momentum" else 0
    return optim.SGD(weights, rate, momentum=momentum, fused=True)


def open_torch(name: str, part: str, threads: int) -> Run:
    """PyTorch op by op."""
    return checked(torch_step(name, part, threads, compiles=False))


def open_compiled(name: str, part: str, threads: int) -> Run:
    """PyTorch with the loss compiled, and so its gradients."""
    return checked(torch_step(name, part, threads, compiles=True))


MIN_CUT = "aot_eager_decomp_partition"
"""PyTorch's backend that keeps what its minimum cut says, and compiles no kernels."""


def torch_peak(name: str, *, cuts: bool = False) -> int:
    """
    The bytes that a step of PyTorch needs, at the fullest moment: what it allocates,
    and the batch, as our plans count it; with what its minimum cut makes again, if it
    `cuts`.
    """
    torch = import_module("torch")
    step = torch_step(name, STEP, 1, compiles=cuts, backend=MIN_CUT)
    # The first one makes the states of the optimizer, which are no activations, and
    # gradients go before the step that is measured.
    step()
    step()
    profiler = torch.profiler
    activities = [profiler.ProfilerActivity.CPU]
    with profiler.profile(activities=activities, profile_memory=True) as found:
        step()
    events = found.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    batch = sum(array.nbytes for array in training_of(name).drawn_batch())
    return batch + peak_of([x for _, x in sorted(changes, key=lambda e: e[0])])


def peak_of(changes: Sequence[int]) -> int:
    """The most bytes of allocations above the least before, which frees are part of."""
    now = least = peak = 0
    for change in changes:
        now += change
        least = min(least, now)
        peak = max(peak, now - least)
    return peak


################################################################################
# JAX                                                                          #
################################################################################


@dataclass(frozen=True)
class JaxFunctions:
    """The functions of networks in JAX."""

    jax: Any

    def relu(self, x: Any) -> Any:
        """The larger of each element and 0."""
        return self.jax.nn.relu(x)

    def gelu(self, x: Any) -> Any:
        """The GELU of each element."""
        return self.jax.nn.gelu(x, approximate=True)

    def relu6(self, x: Any) -> Any:
        """Each element clipped."""
        return self.jax.nn.relu6(x)

    def conv(self, x: Any, w: Any, stride: int, groups: int) -> Any:
        """A convolution."""
        pads = [(w.shape[2] // 2,) * 2] * 2
        return self.jax.lax.conv_general_dilated(
            x, w, (stride, stride), pads, feature_group_count=groups
        )

    def batch_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        """Channels normalized."""
        axes, one = (0, 2, 3), (1, -1, 1, 1)
        mean = x.mean(axes, keepdims=True)
        factor = self.jax.lax.rsqrt(x.var(axes, keepdims=True) + 1e-5)
        return (x - mean) * (factor * scale.reshape(one)) + bias.reshape(one)

    def max_pool(self, x: Any) -> Any:
        """The largest of windows."""
        lax, pads = self.jax.lax, [(0, 0), (0, 0), (1, 1), (1, 1)]
        least = -float("inf")
        return lax.reduce_window(x, least, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), pads)

    def mean_pixel(self, x: Any) -> Any:
        """The mean of images."""
        return x.mean((2, 3))

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        """Rows normalized."""
        mean = x.mean(-1, keepdims=True)
        factor = self.jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        return (x - mean) * factor * scale + bias

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        """Causal attention."""
        numpy = self.jax.numpy
        scores = numpy.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        seen = np.tri(*scores.shape[-2:], dtype=bool)
        shares = self.jax.nn.softmax(numpy.where(seen, scores, -np.inf), -1)
        return numpy.einsum("bhqk,bhkd->bhqd", shares, v)

    def lookup(self, table: Any, numbers: Any) -> Any:
        """Rows of a table."""
        return table[numbers]

    def permute(self, x: Any, axes: Sequence[int]) -> Any:
        """Axes in another order."""
        return x.transpose(axes)

    def split(self, x: Any, count: int) -> Sequence[Any]:
        """Equal parts of rows."""
        return self.jax.numpy.split(x, count, -1)

    def lstm(self, x: Any, w: Any, r: Any, bias: Any) -> Any:
        """A scan."""
        jax = self.jax
        zero = jax.numpy.zeros((x.shape[1], r.shape[0]), np.float32)

        def cell(state: Any, gates: Any) -> Any:
            h, c = state
            i, f, g, o = jax.numpy.split(gates + h @ r, 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jax.numpy.tanh(g)
            h = jax.nn.sigmoid(o) * jax.numpy.tanh(c)
            return (h, c), h

        return jax.lax.scan(cell, (zero, zero), x @ w + bias)[1]

    def loss(self, scores: Any, labels: Any) -> Any:
        """The mean cross entropy."""
        shares = self.jax.nn.log_softmax(scores, -1)
        return -self.jax.numpy.take_along_axis(shares, labels[:, None], 1).mean()


def jax_update(rule: Rule, numpy: Any, gradient: Any, state: Any, count: Any) -> Any:
    """A weight, and what its optimizer keeps, after an update."""
    weight, (kind, rate) = state[0], rule
    if kind == "sgd":
        return (weight - rate * gradient,)
    if kind == "momentum":
        kept = SHARE_KEPT * state[1] + gradient
        return weight - rate * kept, kept
    mean = 0.9 * state[1] + 0.1 * gradient
    square = 0.999 * state[2] + 0.001 * gradient * gradient
    change = mean / (1 - 0.9**count)
    change /= numpy.sqrt(square / (1 - 0.999**count)) + 1e-8
    return weight * (1 - rate * DECAY) - rate * change, mean, square


KEPT = {"sgd": 0, "momentum": 1, "adamw": 2}
"""The arrays that an optimizer keeps for a weight."""


def open_jax(name: str, part: str, threads: int) -> Run:
    """One compiled function, which is given the memory of what it updates."""
    jax: Any = start_jax(threads)
    training, functions = training_of(name), JaxFunctions(jax)
    x, labels = map(jax.device_put, training.drawn_batch())

    def loss_of(weights: Mapping[str, Any], x: Any, labels: Any) -> Any:
        return training.loss(functions, weights, x, labels)

    def step(states: Mapping[str, Any], count: Any, x: Any, labels: Any) -> Any:
        weights = {key: state[0] for key, state in states.items()}
        if part == FORWARD:
            return loss_of(weights, x, labels), None
        loss, found = jax.value_and_grad(loss_of)(weights, x, labels)
        if part == BACKWARD:
            return loss, found
        new = {
            key: jax_update(training.rule, jax.numpy, found[key], state, count)
            for key, state in states.items()
        }
        return loss, new

    states: Any = jax.device_put(
        {
            key: (
                value,
                *(np.zeros_like(value) for _ in range(KEPT[training.rule.kind])),
            )
            for key, value in training.weights().items()
        }
    )
    compiled = jax.jit(step, donate_argnums=(0,) if part == STEP else ())
    count = 0

    def run() -> float:
        nonlocal states, count
        count += 1
        found = compiled(states, np.float32(count), x, labels)
        loss, made = jax.block_until_ready(found)
        if part == STEP:
            states = made
        return float(loss)

    return checked(run)


################################################################################
# Updates alone                                                                #
################################################################################

ELEMENTS = 1 << 24
"""The elements of the weight of which an update is timed: more than caches hold."""
MOVED = 7 * 4 * ELEMENTS
"""The bytes of an update by AdamW: it reads four arrays, and writes three of these."""


def weight_and_gradient() -> tuple[Any, Any]:
    """A weight and its gradient."""
    random = np.random.default_rng(SEED)
    weight = random.standard_normal(ELEMENTS, np.float32)
    return weight, random.standard_normal(ELEMENTS, np.float32)


def no_outputs(step: Callable[[], object]) -> Run:
    """The runs of an update; losses of steps show that it is right."""

    def run() -> Sequence[Any]:
        step()
        return []

    return run


def update_penstock(threads: int) -> Run:
    """A job of an update."""
    weight, gradient = weight_and_gradient()

    def step() -> object:
        found = penstock.variable("g", init=gradient)
        penstock.variable("w", init=weight)
        penstock_optimizer(ADAMW).update({"w": found})
        return found[0]

    return no_outputs(penstock_run(penstock.job(step).trace().model(), {}, threads))


def update_torch(threads: int) -> Run:
    """One call of PyTorch's optimizer."""
    torch = import_module("torch")
    torch.set_num_threads(threads)
    weight, gradient = map(torch.from_numpy, weight_and_gradient())
    weight.grad = gradient
    return no_outputs(torch_optimizer(ADAMW, [weight]).step)


def update_jax(threads: int) -> Run:
    """A compiled function, which is given the memory of what it updates."""
    jax: Any = start_jax(threads)
    weight, gradient = weight_and_gradient()
    state: Any = jax.device_put((weight, 0 * weight, 0 * weight))
    placed = jax.device_put(gradient)

    def update(state: Any, gradient: Any, count: Any) -> Any:
        return jax_update(ADAMW, jax.numpy, gradient, state, count)

    compiled = jax.jit(update, donate_argnums=(0,))
    count = 0

    def step() -> None:
        nonlocal state, count
        count += 1
        state = jax.block_until_ready(compiled(state, placed, np.float32(count)))

    return no_outputs(step)


def copy_torch(threads: int) -> Run:
    """A copy that moves as many bytes as an update."""
    torch = import_module("torch")
    torch.set_num_threads(threads)
    source = torch.ones(MOVED // 8)
    target = torch.empty_like(source)
    return no_outputs(lambda: target.copy_(source))


UPDATERS: Mapping[str, Callable[[int], Run]] = {
    "Penstock": update_penstock,
    "PyTorch eager": update_torch,
    "JAX": update_jax,
    "PyTorch copy": copy_torch,
}
"""All contenders of an update, and the copy that none is expected to beat."""

OPENERS: Mapping[str, Callable[[str, str, int], Run]] = {
    "Penstock": open_penstock,
    "PyTorch eager": open_torch,
    "torch.compile": open_compiled,
    "JAX": open_jax,
}
"""All contenders, ours first."""
