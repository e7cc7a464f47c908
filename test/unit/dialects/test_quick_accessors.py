"""Quick accessors of ops against those of xDSL, on segments of random sizes."""

import random

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import i32
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_region_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from penstock.dialects.utils.quick_accessors import quick_accessors


class Parts(IRDLOperation):
    """Operands in segments, results of which one is variadic, and two regions."""

    a = var_operand_def()
    b = operand_def()
    c = opt_operand_def()
    d = var_operand_def()
    e = result_def()
    f = var_result_def()
    g = region_def()
    h = opt_region_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class UsualOp(Parts):
    name = "test.usual"


@quick_accessors
@irdl_op_definition
class QuickOp(Parts):
    name = "test.quick"


@pytest.mark.parametrize("seed", range(5))
def test_quick_accessors_find_what_those_of_xdsl_find(seed: int) -> None:
    dice = random.Random(seed)
    values: list[SSAValue] = [*test.TestOp(result_types=[i32] * 8).results]
    for _ in range(8):
        operands = [
            dice.sample(values, dice.randrange(3)),
            dice.choice(values),
            dice.choice([None, dice.choice(values)]),
            dice.sample(values, dice.randrange(3)),
        ]
        results = [i32, [i32] * dice.randrange(3)]
        regions = dice.randrange(2)
        ops = [
            kind(
                operands=operands,
                result_types=results,
                regions=[Region(), [Region() for _ in range(regions)]],
            )
            for kind in (UsualOp, QuickOp)
        ]
        usual, quick = ops
        for name in "abcd":
            assert getattr(quick, name) == getattr(usual, name), name
        assert [quick.e, *quick.f] == [*quick.results]
        assert isinstance(quick.g, Region)
        assert (quick.h is None) == (usual.h is None) == (not regions)
        with pytest.raises(NotImplementedError, match="are not written"):
            quick.b = values[0]
