"""The dialects of Penstock, by name. Importing this module imports none of them."""

from collections.abc import Callable

from xdsl.ir import Dialect


def get_all_dialects() -> dict[str, Callable[[], Dialect]]:
    """Map each dialect's name to a function that imports and returns it."""

    def get_job():
        from penstock.dialects.job import Job

        return Job

    def get_launch():
        from penstock.dialects.launch import Launch

        return Launch

    def get_op():
        from penstock.dialects.op import Op

        return Op

    def get_plan():
        from penstock.dialects.plan import Plan

        return Plan

    def get_regst():
        from penstock.dialects.regst import Regst

        return Regst

    return {
        "job": get_job,
        "launch": get_launch,
        "op": get_op,
        "plan": get_plan,
        "regst": get_regst,
    }
