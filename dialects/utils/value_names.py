"""Names of values in the text of IR."""

from xdsl.ir import SSAValue


def name_value(value: SSAValue, name: str) -> None:
    """
    Let the text of IR call a value so, if it can: xDSL takes letters of any script for
    the name of a value, but reads back those of ASCII only.
    """
    if name.isascii() and SSAValue.is_valid_name(name):
        value.name_hint = name
