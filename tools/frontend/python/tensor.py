"""
Tensors of traced functions, which NumPy's operators and functions take for arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from xdsl.ir import SSAValue

from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.python.dtypes import (
    DType,
    array_text,
    dtype_named,
    shape_and_dtype,
)
from penstock.tools.frontend.python.errors import refuse
from penstock.tools.frontend.python.guards import late


class Recorder(Protocol):
    """The trace of a function."""

    @property
    def job(self) -> str:
        """The name of the function."""
        ...

    @property
    def origin(self) -> str:
        """The origin of its tensors, as others are told that use them."""
        ...


class Tensor(NDArrayOperatorsMixin):
    """
    A value in a function that is traced: a shape and a dtype, but no elements yet.

    Operators, indexing and the functions of NumPy that Penstock has ops for become ops
    of the job, with NumPy's rules for shapes and dtypes. Jobs make tensors: `value` is
    theirs in the IR that `trace` writes.

    Operations raise TraceError where shapes or dtypes do not fit, or elements are
    needed.

    ```python
    from typing import Annotated

    import numpy as np

    import penstock
    from penstock import Tensor


    @penstock.job
    def normalized(x: Annotated[Tensor, (4, 8), "f32"]):
        centred = x - x.mean(axis=1, keepdims=True)
        return np.maximum(centred, 0)[:, ::2]


    assert "op.reduce_mean" in normalized.ir
    ```
    """

    __slots__ = ("dtype", "shape", "trace", "value")

    def __init__(self, value: SSAValue, trace: Recorder):
        self.value = value
        self.trace = trace
        self.shape: tuple[int, ...]
        self.dtype: DType
        self.shape, self.dtype = shape_and_dtype(tensor_type(value))

    @property
    def text(self) -> str:
        """The shape and dtype, such as `64x784xf32`."""
        return array_text(self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def T(self) -> Tensor:
        """The tensor with its axes in reverse order."""
        return self.transpose()

    def __repr__(self) -> str:
        return f"Tensor({self.text})"

    # NumPy's protocols

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **options: object
    ) -> Tensor:
        return late("ufuncs").apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(
        self,
        function: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...],
        options: dict[str, object],
    ) -> object:
        return late("functions").apply_function(function, args, options)

    def _numpy(
        self, function: Callable[..., Any], *args: object, **options: object
    ) -> Tensor:
        """The result of a NumPy function on this tensor."""
        return late("functions").apply_function(function, (self, *args), options)

    # Methods of arrays

    def astype(self, dtype: object) -> Tensor:
        """The elements as another `dtype`."""
        return late("functions").cast(self, dtype_named(dtype))

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """The elements under another `shape`, in which one extent may be -1."""
        return self._numpy(np.reshape, integers(shape))

    def transpose(self, *axes: int | Sequence[int]) -> Tensor:
        """The tensor with its axes in the order of `axes`, or in reverse order."""
        return self._numpy(np.transpose, integers(axes) or None)

    def ravel(self) -> Tensor:
        """The elements in one axis."""
        return self.reshape(-1)

    flatten = ravel

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Tensor:
        """
        The tensor without axes of one element: `axis`, one or several, or all of them.
        """
        return self._numpy(np.squeeze, axis)

    def sum(
        self,
        axis: int | Sequence[int] | None = None,
        dtype: object = None,
        *,
        keepdims: bool = False,
    ) -> Tensor:
        """
        The sum along `axis`, one or several, or of all elements, as `dtype`. With
        `keepdims` these axes stay, with one element.
        """
        return self._numpy(np.sum, axis, dtype, keepdims=keepdims)

    def prod(
        self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """
        The product along `axis`, one or several, or of all elements. With `keepdims`
        these axes stay, with one element.
        """
        return self._numpy(np.prod, axis, keepdims=keepdims)

    def mean(
        self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """
        The mean along `axis`, one or several, or of all elements. With `keepdims` these
        axes stay, with one element.
        """
        return self._numpy(np.mean, axis, keepdims=keepdims)

    def max(
        self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """
        The largest element along `axis`, one or several, or of all. With `keepdims`
        these axes stay, with one element.
        """
        return self._numpy(np.max, axis, keepdims=keepdims)

    def min(
        self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """
        The smallest element along `axis`, one or several, or of all. With `keepdims`
        these axes stay, with one element.
        """
        return self._numpy(np.min, axis, keepdims=keepdims)

    # Indexing

    def __getitem__(self, key: object) -> Tensor:
        return late("indexing").indexed(self, key)

    def __len__(self) -> int:
        if not self.shape:
            raise refuse("a scalar has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[place] for place in range(len(self)))

    # Methods of arrays that need elements

    def _refuse(self) -> NoReturn:
        raise refuse(
            f"the elements of tensor {self.text} are not known while "
            f"'{self.trace.job}' is traced: choose between values with np.where"
        )

    def __bool__(self) -> bool:
        self._refuse()

    def __int__(self) -> int:
        self._refuse()

    def __float__(self) -> float:
        self._refuse()

    def __index__(self) -> int:
        self._refuse()

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        self._refuse()


def integers(values: Sequence[int | Sequence[int]]) -> tuple[int, ...]:
    """The integers of arguments that may be one sequence: `f(2, 3)` or `f((2, 3))`."""
    found: list[int] = []
    for value in values:
        found += [value] if isinstance(value, int | np.integer) else value
    return tuple(int(value) for value in found)
