"""
The words of a direct call (`penstock.runtime.core.direct_calls`), and the places of the
fields of Python's objects. Python and compiled code both read it; modules import it as
`d`.
"""

from __future__ import annotations

HEAD = object.__basicsize__
"""The bytes of an object before its own fields, the last of which is its type."""
TUPLE_ITEMS = tuple.__basicsize__
"""The bytes of a tuple before its items."""

# The fields of an array object, as each C extension reads them.
DATA, DIMENSIONS, SHAPE, DTYPE, FLAGS = (HEAD + 8 * n for n in (0, 1, 2, 5, 6))
CONTIGUOUS = 1
"""The bit of the flags of arrays whose elements lie in the order of C."""

FUNCTIONS = (
    "PyDict_Size",
    "PyDict_GetItem",
    "PyDict_New",
    "PyDict_SetItem",
    "PyList_SetItem",
    "PyObject_CallObject",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyErr_Fetch",
    "PyErr_Restore",
    "Py_IncRef",
    "Py_DecRef",
)
"""The functions of Python that are called, each at an address of its own."""

# The words of a call. First the addresses of functions and of words, then objects.
(
    DICT_SIZE,
    GET_ITEM,
    NEW_DICT,
    SET_ITEM,
    KEEP,
    CALL,
    SAVE_THREAD,
    RESTORE_THREAD,
    FETCH_ERROR,
    RESTORE_ERROR,
    SHARE,
    FREE,
) = range(0, 8 * len(FUNCTIONS), 8)
(
    CORE,
    START,
    CONTROL,
    GATE,
    OBSERVERS,
    OTHERWISE,
    GO_ON,
    ITS_ARGUMENTS,
    HELD,
    LOCK,
    UNLOCK,
    LOCK_CORE,
    UNLOCK_CORE,
    AT_ONCE,
    NOTHING,
    NONE,
    TRUE,
    DICT,
    ARRAY,
    RESULTS,
    ERROR,
    ERROR_VALUE,
    ERROR_TRACE,
    FIRST_CHANGING,
    LAST_CHANGING,
    INPUTS,
    OUTPUTS,
) = range(8 * len(FUNCTIONS), 8 * (len(FUNCTIONS) + 27), 8)
PORTS = OUTPUTS + 8
"""The start of the rows of ports, those of inputs first."""
NAME, TABLE, GIVEN, RANK, EXTENTS, KIND, BYTES = range(0, 56, 8)
"""Words of a port: its name, its table, its array in a run, and of inputs those facts
that an array has to have."""
MAKE, ARGUMENTS = RANK, EXTENTS
"""Words of an output in place of these: the function that makes an array for it."""
PORT_BYTES = 56
