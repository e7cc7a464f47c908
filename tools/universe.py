"""
The universe of Penstock: its dialects, passes and targets for every xDSL tool.
"""

from collections.abc import Callable

from xdsl.universe import Universe
from xdsl.utils.target import Target

from penstock.dialects import get_all_dialects
from penstock.lowering import get_all_passes
from penstock.lowering.algorithms.machine_code import keep_machine_code_with


def get_all_targets() -> dict[str, Callable[[], type[Target]]]:
    """Map each output format's name to a function that imports and returns it."""

    def get_cuda_ptx() -> type[Target]:
        from penstock.tools.reports.cuda_targets import CudaPtxTarget

        return CudaPtxTarget

    def get_cuda_resources() -> type[Target]:
        from penstock.tools.reports.cuda_targets import CudaResourcesTarget

        return CudaResourcesTarget

    def get_cuda_sass() -> type[Target]:
        from penstock.tools.reports.cuda_targets import CudaSassTarget

        return CudaSassTarget

    def get_numba() -> type[Target]:
        from penstock.lowering.codegen.target import NumbaTarget

        return NumbaTarget

    def get_op_stats() -> type[Target]:
        from penstock.tools.reports.op_stats import OpStatsTarget

        return OpStatsTarget

    def get_memory_report() -> type[Target]:
        from penstock.tools.reports.memory import MemoryReportTarget

        return MemoryReportTarget

    return {
        "cuda-ptx": get_cuda_ptx,
        "cuda-resources": get_cuda_resources,
        "cuda-sass": get_cuda_sass,
        "memory-report": get_memory_report,
        "numba": get_numba,
        "op-stats": get_op_stats,
    }


def keep_function_of_pass(function: object) -> None:
    """Keep machine code of a pass in the cache folder."""
    from penstock.runtime.core.object_key import packing_folder
    from penstock.runtime.jit.cached_functions import keep_function

    keep_function(function, packing_folder())


keep_machine_code_with(keep_function_of_pass)
PENSTOCK_UNIVERSE = Universe(
    all_dialects=get_all_dialects(),
    all_passes=get_all_passes(),
    all_targets=get_all_targets(),
)
