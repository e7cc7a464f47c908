"""The rules that a program must satisfy before an executor takes it."""

import pytest

from penstock.runtime.errors import PenstockError
from penstock.runtime.program.tables import Actor, Call, Fixed, Register, Slot, Tables


def refused(registers: list[Register], actors: list[Actor]) -> str:
    with pytest.raises(PenstockError) as caught:
        Tables(registers, actors)
    return str(caught.value)


def test_producer_must_exist():
    expected = "register 'x' is produced by actor 2, but there are 1"
    assert refused([Register("x", 2)], [Actor("a")]) == expected
    assert "actor -1" in refused([Register("x", -1)], [Actor("a")])


def test_register_needs_a_slot():
    error = refused([Register("x", 0, slots=0)], [Actor("a", writes=(0,))])
    assert error == "register 'x' needs a slot, got 0"


@pytest.mark.parametrize("initial", [-1, 3])
def test_no_more_slots_are_full_than_there_are(initial: int):
    error = refused([Register("x", 0, 2, initial)], [Actor("a", writes=(0,))])
    assert error == f"register 'x' starts with {initial} of 2 slots full"


def test_worker_must_not_be_negative():
    assert refused([], [Actor("a", worker=-1)]) == "actor 'a' is on worker -1"


def test_registers_of_an_actor_must_exist():
    error = refused([], [Actor("a", reads=(0,))])
    assert error == "actor 'a' reads register 0, but there are 0"
    error = refused([], [Actor("a", writes=(-1,))])
    assert error == "actor 'a' writes register -1, but there are 0"


def test_register_is_listed_once():
    actors = [Actor("a", writes=(0,)), Actor("b", reads=(0, 0))]
    assert refused([Register("x", 0)], actors) == "actor 'b' reads register 'x' twice"
    error = refused([Register("x", 0)], [Actor("a", writes=(0, 0))])
    assert error == "actor 'a' writes register 'x' twice"


def test_producer_writes_its_register():
    error = refused([Register("x", 0)], [Actor("a")])
    expected = "actor 'a' does not write register 'x', which is produced by 'a'"
    assert error == expected


def test_only_the_producer_writes_a_register():
    actors = [Actor("a", writes=(0,)), Actor("b", writes=(0,))]
    error = refused([Register("x", 0)], actors)
    assert error == "actor 'b' writes register 'x', which is produced by 'a'"


def test_call_needs_a_kernel():
    error = refused([], [Actor("a", calls=(Call(0),))])
    assert error == "a call of actor 'a' has no kernel"


def test_call_is_given_registers_of_its_actor():
    actors = [Actor("a", writes=(0,)), Actor("b", calls=(Call(1, (Slot(0),)),))]
    assert refused([Register("x", 0, address=64)], actors) == (
        "a call of actor 'b' is given register 0, which the actor neither reads"
        " nor writes"
    )


def test_call_is_not_given_a_register_that_is_read_and_written():
    actor = Actor("a", reads=(0,), writes=(0,), calls=(Call(1, (Slot(0),)),))
    assert refused([Register("x", 0, 2, 1, 64)], [actor]) == (
        "a call of actor 'a' is given register 0, which the actor reads and writes"
    )


def test_call_is_not_given_a_control_register():
    actor = Actor("a", writes=(0,), calls=(Call(1, (Slot(0),)),))
    assert refused([Register("x", 0)], [actor]) == (
        "a call of actor 'a' is given register 'x', which has no memory"
    )


def test_rows_hold_the_first_slots_and_the_fixed_words():
    registers = [Register("x", 0, 3, 0, 640, 64), Register("y", 1, 2, 1, 128, 8)]
    calls = (Call(1, (Slot(0), Fixed(5))), Call(1), Call(1, (Fixed(0), Slot(1))))
    actors = [Actor("a", writes=(0,)), Actor("b", 0, (0,), (1,), calls)]
    assert Tables(registers, actors).rows.tolist() == [640, 5, 0, 136]


def test_only_arguments_with_several_slots_rotate():
    registers = [Register("x", 0, 3, 0, 640, 64), Register("y", 0, 1, 0, 128, 8)]
    actor = Actor("a", 0, (), (0, 1), (Call(1, (Slot(1), Fixed(5), Slot(0))),))
    layout = Tables(registers, [actor]).layout
    assert layout.rotating.tolist() == [2]
    assert layout.first.tolist() == [640]
    assert layout.limit.tolist() == [640 + 3 * 64]


def test_only_actors_that_wait_for_another_worker_are_polled():
    registers = [Register(f"r{i}", i) for i in range(3)]
    actors = [
        Actor("a", 0, (), (0,)),
        Actor("b", 0, (0,), (1,)),
        Actor("c", 1, (1,), (2,)),
        Actor("d", 1, (2,)),
    ]
    layout = Tables(registers, actors).layout
    assert layout.boundary.tolist() == [1, 2]
    assert layout.boundary_start.tolist() == [0, 1, 2]
