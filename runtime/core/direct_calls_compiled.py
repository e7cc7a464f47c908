"""The compiled function of `penstock.runtime.core.direct_calls`."""

from __future__ import annotations

from penstock.runtime.core import direct_layout as d
from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import (
    Integer,
    call_0,
    call_1,
    call_2,
    call_3,
    compiled,
    load_word,
    store_word,
)

HEAD, TUPLE_ITEMS = d.HEAD, d.TUPLE_ITEMS
SIZE_OF_DIMENSIONS = (1 << 32) - 1
"""The bits of the number of dimensions in its word."""
ASIDE = 1
"""No object: a run that is not made here."""


def direct(owner: int, arguments: int, count: int) -> int:
    """
    The outputs of a run, an object of Python that the caller owns, for a number of
    arguments; 0 if an exception was raised.
    """
    call = load_word(load_word(owner + TUPLE_ITEMS) + d.DATA)
    results = run(call, arguments, count)
    if results != ASIDE:
        return results
    otherwise = load_word(call + d.OTHERWISE)
    if otherwise == load_word(call + d.NONE):
        share(call, otherwise)
        return otherwise
    return asked(call, otherwise, load_word(call + d.NOTHING))


@compiled(inline=False)
def run(call: Integer, arguments: Integer, count: Integer) -> int:
    """The outputs of a run; 0 if an exception was raised, ASIDE if none is made."""
    results = load_word(call + d.RESULTS)
    is_bound = results != 0
    if count != (0 if is_bound else 1) or not is_usual(call):
        return ASIDE
    if is_bound:
        share(call, results)
    else:
        results = new_results(call)
        if results == 0:
            return 0
    if not lock(call):
        free(call, results)
        return ASIDE
    # Another thread may have had the lock.
    is_taken = is_usual(call) and (is_bound or takes(call, load_word(arguments)))
    is_raised = is_taken and not make_run(call, results)
    if is_raised:
        fetch = load_word(call + d.FETCH_ERROR)
        call_3(fetch, call + d.ERROR, call + d.ERROR_VALUE, call + d.ERROR_TRACE)
    unlock(call)
    if is_taken and not is_raised:
        return results
    if is_raised:
        give_back_error(call)
    free(call, results)
    return 0 if is_raised else ASIDE


@compiled()
def is_usual(call: Integer) -> bool:
    """Whether nothing asks for a run by Python."""
    gate = load_word(load_word(call + d.GATE))
    control = load_word(call + d.CONTROL)
    observers = load_word(load_word(call + d.OBSERVERS) + HEAD)
    return gate == 0 and load_word(control + 8 * w.BY_PYTHON) == 0 and observers == 0


@compiled()
def new_results(call: Integer) -> int:
    """A dictionary of new arrays for outputs, by name; 0 if an exception was raised."""
    results = call_0(load_word(call + d.NEW_DICT))
    if results == 0:
        return 0
    row = outputs_of(call)
    for _ in range(load_word(call + d.OUTPUTS)):
        make, given = load_word(row + d.MAKE), load_word(row + d.ARGUMENTS)
        array = asked(call, make, given)
        if array == 0:
            free(call, results)
            return 0
        put = load_word(call + d.SET_ITEM)
        call_3(put, results, load_word(row + d.NAME), array)
        # The dictionary has it from now on.
        free(call, array)
        row += d.PORT_BYTES
    return results


@compiled(inline=False)
def takes(call: Integer, given: Integer) -> bool:
    """
    Whether an object is a dictionary of arrays that can be read as they are, one for
    each input. If so they are noted, and owned.
    """
    if load_word(given + HEAD - 8) != load_word(call + d.DICT):
        return False
    count = load_word(call + d.INPUTS)
    if call_1(load_word(call + d.DICT_SIZE), given) != count:
        return False
    row = call + d.PORTS
    for _ in range(count):
        array = call_2(load_word(call + d.GET_ITEM), given, load_word(row + d.NAME))
        if array == 0 or not fits(call, row, array):
            return False
        store_word(row + d.GIVEN, array)
        row += d.PORT_BYTES
    row = call + d.PORTS
    for _ in range(count):
        share(call, load_word(row + d.GIVEN))
        row += d.PORT_BYTES
    return True


@compiled()
def fits(call: Integer, row: Integer, array: Integer) -> bool:
    """Whether an object is an array that an input reads as it is."""
    if load_word(array + HEAD - 8) != load_word(call + d.ARRAY):
        return False
    rank = load_word(row + d.RANK)
    if load_word(array + d.DIMENSIONS) & SIZE_OF_DIMENSIONS != rank:
        return False
    if load_word(array + d.DTYPE) != load_word(row + d.KIND):
        return False
    extents, shape = load_word(row + d.EXTENTS), load_word(array + d.SHAPE)
    for axis in range(rank):
        if load_word(extents + 8 * axis) != load_word(shape + 8 * axis):
            return False
    start = load_word(array + d.DATA)
    is_apart = start >= load_word(call + d.LAST_CHANGING) or (
        start + load_word(row + d.BYTES) <= load_word(call + d.FIRST_CHANGING)
    )
    return load_word(array + d.FLAGS) & d.CONTIGUOUS != 0 and is_apart


@compiled(inline=False)
def make_run(call: Integer, results: Integer) -> bool:
    """Make a run on the arrays that are noted; False if an exception was raised."""
    is_bound = load_word(call + d.RESULTS) != 0
    row = call + d.PORTS
    inputs, outputs = load_word(call + d.INPUTS), load_word(call + d.OUTPUTS)
    for port in range(inputs + outputs):
        array = load_word(row + d.GIVEN)
        if port >= inputs and not is_bound:
            # The dictionary owns it.
            name = load_word(row + d.NAME)
            array = call_2(load_word(call + d.GET_ITEM), results, name)
        table = load_word(row + d.TABLE)
        store_word(table, 0)
        store_word(table + 16, load_word(array + d.DATA))
        row += d.PORT_BYTES
    thread = call_0(load_word(call + d.SAVE_THREAD))
    came = call_1(load_word(call + d.CORE), load_word(call + d.START))
    call_1(load_word(call + d.RESTORE_THREAD), thread)
    if came == w.ENDED_WELL:
        if not is_bound:
            give_back_inputs(call)
        return True
    return go_on(call, results, is_bound)


@compiled(inline=False)
def go_on(call: Integer, results: Integer, is_bound: bool) -> bool:
    """
    Let Python bring a run to its end, which has the arrays until then; False if an
    exception was raised.
    """
    store_word(load_word(call + d.CONTROL) + 8 * w.BY_PYTHON, w.UNCLEAN)
    keep, held = load_word(call + d.KEEP), load_word(call + d.HELD)
    count = load_word(call + d.INPUTS)
    row = call + d.PORTS
    if not is_bound:
        for port in range(count):
            call_3(keep, held, port, load_word(row + d.GIVEN))
            row += d.PORT_BYTES
    share(call, results)
    call_3(keep, held, count, results)
    function, given = load_word(call + d.GO_ON), load_word(call + d.ITS_ARGUMENTS)
    found = asked(call, function, given)
    if found != 0:
        free(call, found)
    return found != 0


@compiled()
def give_back_inputs(call: Integer) -> None:
    """Own the arrays of inputs no longer."""
    row = call + d.PORTS
    for _ in range(load_word(call + d.INPUTS)):
        free(call, load_word(row + d.GIVEN))
        row += d.PORT_BYTES


@compiled()
def lock(call: Integer) -> bool:
    """Take both locks, unless another thread has one."""
    if not has_locked(call, load_word(call + d.LOCK)):
        return False
    if has_locked(call, load_word(call + d.LOCK_CORE)):
        return True
    release(call, load_word(call + d.UNLOCK))
    return False


@compiled()
def unlock(call: Integer) -> None:
    """Let other threads take both locks."""
    release(call, load_word(call + d.UNLOCK_CORE))
    release(call, load_word(call + d.UNLOCK))


@compiled()
def has_locked(call: Integer, acquire: Integer) -> bool:
    """Whether a lock is taken at once."""
    found = asked(call, acquire, load_word(call + d.AT_ONCE))
    free(call, found)
    return found == load_word(call + d.TRUE)


@compiled()
def release(call: Integer, function: Integer) -> None:
    """Let another thread take a lock."""
    free(call, asked(call, function, load_word(call + d.NOTHING)))


@compiled(inline=False)
def give_back_error(call: Integer) -> None:
    """Raise the exception that was put aside while locks were released."""
    error, value = load_word(call + d.ERROR), load_word(call + d.ERROR_VALUE)
    trace = load_word(call + d.ERROR_TRACE)
    call_3(load_word(call + d.RESTORE_ERROR), error, value, trace)


@compiled()
def outputs_of(call: Integer) -> int:
    """The address of the row of the first output."""
    return int(call + d.PORTS + d.PORT_BYTES * load_word(call + d.INPUTS))


@compiled()
def asked(call: Integer, function: Integer, arguments: Integer) -> int:
    """The result of an object for a tuple of arguments; 0 if it raises."""
    return call_2(load_word(call + d.CALL), function, arguments)


@compiled()
def share(call: Integer, thing: Integer) -> None:
    """Own an object that others own, too."""
    call_1(load_word(call + d.SHARE), thing)


@compiled()
def free(call: Integer, thing: Integer) -> None:
    """Own an object no longer."""
    call_1(load_word(call + d.FREE), thing)
