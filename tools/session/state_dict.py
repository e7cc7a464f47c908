"""
Weights to and from state dicts: the arrays of a model by names, as PyTorch keeps them.

    state = session.read_variables()
    session.write_variables(from_state_dict(model.state_dict(), state))
    ...
    np.savez("weights.npz", **to_state_dict(session.read_variables()))

Nothing is lost on the way: arrays keep their dtypes and bits, `bf16` too, and a name
without a partner is an error. PyTorch itself is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.runtime.errors import PenstockError

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

Names: TypeAlias = Mapping[str, str] | Callable[[str], str]


def to_state_dict(
    state: Mapping[str, Array],
    names: Names | None = None,
    *,
    prefix: str = "",
    transposed: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> dict[str, Array]:
    """
    The arrays of variables by the names of a state dict.

    * `state`: arrays by the names of variables, as `read_variables` returns them.
    * `names`: the name in the state dict of each variable whose name is another one
      there, as a mapping or a function; `prefix` comes before all of them.
    * `transposed`: the variables that lie transposed there, such as the weights of
      `torch.nn.Linear`. These and names to `ignore` may be patterns: `*.weight`.
    * `ignore`: the variables to leave out, such as `*/adamw/*`.

    **Raises** PenstockError if two variables have one name there, or if one is
    transposed that is no matrix.

    ```python
    import numpy as np

    import penstock

    state = {"w": np.ones((3, 2), np.float32), "w/adamw/m": np.zeros((3, 2))}
    found = penstock.to_state_dict(
        state, {"w": "fc.weight"}, transposed=["w"], ignore=["*/adamw/*"]
    )
    assert found["fc.weight"].shape == (2, 3)
    ```
    """
    from penstock.runtime.loading.loader import raise_if_any

    problems: list[str] = []
    found: dict[str, Array] = {}
    for variable, name in _partners(state, names, prefix, ignore).items():
        if name in found:
            problems.append(f"two variables are '{name}' in the state dict")
        array = state[variable]
        if is_turned := _is_any(variable, transposed):
            problems += _no_matrix(variable, array)
        found[name] = array.T.copy() if is_turned else array
    raise_if_any(problems, "state dict")
    return found


def from_state_dict(
    given: Mapping[str, Any],
    state: Mapping[str, Array],
    names: Names | None = None,
    *,
    prefix: str = "",
    transposed: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> dict[str, Array]:
    """
    The arrays of a state dict by the names of variables, for `write_variables`.

    * `given`: arrays, or tensors of PyTorch, by the names of the state dict.
    * `state`: all variables as they are; those to ignore stay so.
    * `names`, `prefix`, `transposed`: as for `penstock.to_state_dict`.
    * `ignore`: the variables, and the entries of the state dict, that need no partner,
      such as `*.num_batches_tracked`.

    **Raises** PenstockError, with all that is wrong, if a name of either side has no
    partner, or if an array has another shape or dtype than its variable.

    ```python
    import numpy as np

    import penstock

    state = {"w": np.zeros((3, 2), np.float32), "step": np.array(7)}
    given = {"model.w": np.ones((3, 2), np.float32)}
    found = penstock.from_state_dict(given, state, prefix="model.", ignore=["step"])
    assert found["w"].all() and found["step"] == 7
    ```
    """
    from penstock.runtime.loading.loader import fitting, raise_if_any

    partners = _partners(state, names, prefix, ignore)
    problems: list[str] = []
    if missing := [x for x in partners.values() if x not in given]:
        problems.append(f"the state dict lacks {', '.join(missing)}")
    known = {*partners.values()}
    unknown = [x for x in given if x not in known and not _is_any(x, ignore)]
    if unknown:
        problems.append(f"no variable takes {', '.join(unknown)}")
    found = dict(state)
    for variable, name in partners.items():
        if name not in given:
            continue
        now, array = state[variable], _array_of(given[name])
        if _is_any(variable, transposed):
            problems += _no_matrix(variable, now)
            array = array.T
        what = f"variable '{variable}', which '{name}' is for,"
        try:
            fit = fitting(what, array, now.shape, now.dtype)
            # An array of no axes has got one by being made contiguous.
            found[variable] = fit.reshape(now.shape)
        except PenstockError as error:
            problems.append(str(error))
    raise_if_any(problems, "state dict")
    return found


def _partners(
    state: Mapping[str, Array], names: Names | None, prefix: str, ignore: Sequence[str]
) -> dict[str, str]:
    """The name in the state dict of each variable that is not ignored."""
    wanted = [variable for variable in state if not _is_any(variable, ignore)]
    if callable(names):
        return {x: prefix + names(x) for x in wanted}
    others = dict(names or {})
    if strange := [x for x in others if x not in state]:
        raise PenstockError(
            f"there are no variables {', '.join(strange)} to give other names, "
            f"only {', '.join(state) or 'none'}"
        )
    return {x: prefix + others.get(x, x) for x in wanted}


def _is_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _no_matrix(variable: str, array: Array) -> list[str]:
    if array.ndim == 2:
        return []
    return [f"variable '{variable}' of shape {array.shape} is no matrix to transpose"]


def _array_of(tensor: Any) -> Array:
    """The array of a tensor of PyTorch, or of all that NumPy takes."""
    import numpy as np

    if not hasattr(tensor, "detach"):
        return np.asarray(tensor)
    tensor = tensor.detach().cpu()
    if str(tensor.dtype).rpartition(".")[2] != "bfloat16":
        return np.asarray(tensor.numpy())
    from penstock.runtime.loading.arrays import numpy_dtype

    # NumPy has no such dtype to be given: its bits are the upper half of an f32's.
    bits = np.ascontiguousarray(tensor.float().numpy(), np.float32).view(np.uint32)
    halves = (bits >> 16).astype(np.uint16)
    return halves.view(numpy_dtype("bfloat16")).reshape(tuple(tensor.shape))
