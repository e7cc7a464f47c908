"""The passes of Penstock, by name. Importing this module imports none of them."""

from collections.abc import Callable

from xdsl.passes import ModulePass


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Map each pass's name to a function that imports and returns it."""

    def get_convert_job_to_plan():
        from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass

        return ConvertJobToPlanPass

    def get_convert_plan_to_launch():
        from penstock.lowering.convert.plan_to_launch import ConvertPlanToLaunchPass

        return ConvertPlanToLaunchPass

    def get_job_add_model_jobs():
        from penstock.lowering.job.add_model_jobs import JobAddModelJobsPass

        return JobAddModelJobsPass

    def get_job_add_push_pull():
        from penstock.lowering.job.add_push_pull import JobAddPushPullPass

        return JobAddPushPullPass

    def get_job_add_sections():
        from penstock.lowering.job.add_sections import JobAddSectionsPass

        return JobAddSectionsPass

    def get_job_clean():
        from penstock.lowering.job.clean import JobCleanPass

        return JobCleanPass

    def get_job_infer_sbp():
        from penstock.lowering.job.infer_sbp import JobInferSbpPass

        return JobInferSbpPass

    def get_job_insert_boxing():
        from penstock.lowering.job.insert_boxing import JobInsertBoxingPass

        return JobInsertBoxingPass

    def get_job_place():
        from penstock.lowering.job.place import JobPlacePass

        return JobPlacePass

    def get_launch_form_chains():
        from penstock.lowering.launch.form_chains import LaunchFormChainsPass

        return LaunchFormChainsPass

    def get_launch_form_waves():
        from penstock.lowering.launch.form_waves import LaunchFormWavesPass

        return LaunchFormWavesPass

    def get_launch_order_commits():
        from penstock.lowering.launch.order_commits import LaunchOrderCommitsPass

        return LaunchOrderCommitsPass

    def get_launch_schedule_attention():
        from penstock.lowering.launch.schedule_attention import (
            LaunchScheduleAttentionPass,
        )

        return LaunchScheduleAttentionPass

    def get_launch_schedule_contractions():
        from penstock.lowering.launch.schedule_contractions import (
            LaunchScheduleContractionsPass,
        )

        return LaunchScheduleContractionsPass

    def get_launch_schedule_tiles():
        from penstock.lowering.launch.schedule_tiles import LaunchScheduleTilesPass

        return LaunchScheduleTilesPass

    def get_launch_select_kernels():
        from penstock.lowering.launch.select_kernels import LaunchSelectKernelsPass

        return LaunchSelectKernelsPass

    def get_op_assign_layouts():
        from penstock.lowering.op.assign_layouts import OpAssignLayoutsPass

        return OpAssignLayoutsPass

    def get_op_fold_constants():
        from penstock.lowering.op.fold_constants import OpFoldConstantsPass

        return OpFoldConstantsPass

    def get_op_fuse_attention():
        from penstock.lowering.op.fuse_attention import OpFuseAttentionPass

        return OpFuseAttentionPass

    def get_op_fuse_elementwise():
        from penstock.lowering.op.fuse_elementwise import OpFuseElementwisePass

        return OpFuseElementwisePass

    def get_op_fuse_epilogues():
        from penstock.lowering.op.fuse_epilogues import OpFuseEpiloguesPass

        return OpFuseEpiloguesPass

    def get_op_fuse_rows():
        from penstock.lowering.op.fuse_rows import OpFuseRowsPass

        return OpFuseRowsPass

    def get_op_infer_shapes():
        from penstock.lowering.op.infer_shapes import OpInferShapesPass

        return OpInferShapesPass

    def get_op_split_pads():
        from penstock.lowering.op.split_pads import OpSplitPadsPass

        return OpSplitPadsPass

    def get_op_use_winograd():
        from penstock.lowering.op.use_winograd import OpUseWinogradPass

        return OpUseWinogradPass

    def get_op_widen_sums():
        from penstock.lowering.op.widen_sums import OpWidenSumsPass

        return OpWidenSumsPass

    def get_plan_add_ticks():
        from penstock.lowering.plan.add_ticks import PlanAddTicksPass

        return PlanAddTicksPass

    def get_plan_assign_streams():
        from penstock.lowering.plan.assign_streams import PlanAssignStreamsPass

        return PlanAssignStreamsPass

    def get_plan_create_registers():
        from penstock.lowering.plan.create_registers import PlanCreateRegistersPass

        return PlanCreateRegistersPass

    def get_plan_form_chains():
        from penstock.lowering.plan.form_chains import PlanFormChainsPass

        return PlanFormChainsPass

    def get_plan_form_waves():
        from penstock.lowering.plan.form_waves import PlanFormWavesPass

        return PlanFormWavesPass

    def get_plan_link_main():
        from penstock.lowering.plan.link_main import PlanLinkMainPass

        return PlanLinkMainPass

    def get_plan_merge_jobs():
        from penstock.lowering.plan.merge_jobs import PlanMergeJobsPass

        return PlanMergeJobsPass

    def get_plan_order_commits():
        from penstock.lowering.plan.order_commits import PlanOrderCommitsPass

        return PlanOrderCommitsPass

    def get_plan_order_tasks():
        from penstock.lowering.plan.order_tasks import PlanOrderTasksPass

        return PlanOrderTasksPass

    def get_plan_order_updates():
        from penstock.lowering.plan.order_updates import PlanOrderUpdatesPass

        return PlanOrderUpdatesPass

    def get_plan_reduce_events():
        from penstock.lowering.plan.reduce_events import PlanReduceEventsPass

        return PlanReduceEventsPass

    def get_plan_select_job():
        from penstock.lowering.plan.select_job import PlanSelectJobPass

        return PlanSelectJobPass

    def get_plan_write_times():
        from penstock.lowering.plan.write_times import PlanWriteTimesPass

        return PlanWriteTimesPass

    def get_regst_alias_registers():
        from penstock.lowering.regst.alias_registers import RegstAliasRegistersPass

        return RegstAliasRegistersPass

    def get_regst_choose_slots():
        from penstock.lowering.regst.choose_slots import RegstChooseSlotsPass

        return RegstChooseSlotsPass

    def get_regst_mark_interfaces():
        from penstock.lowering.regst.mark_interfaces import RegstMarkInterfacesPass

        return RegstMarkInterfacesPass

    def get_regst_plan_memory():
        from penstock.lowering.regst.plan_memory import RegstPlanMemoryPass

        return RegstPlanMemoryPass

    def get_verify_deadlock():
        from penstock.lowering.verify.deadlock import VerifyDeadlockPass

        return VerifyDeadlockPass

    def get_verify_memory():
        from penstock.lowering.verify.memory import VerifyMemoryPass

        return VerifyMemoryPass

    def get_verify_jobs():
        from penstock.lowering.verify.jobs import VerifyJobsPass

        return VerifyJobsPass

    def get_verify_plan():
        from penstock.lowering.verify.plan import VerifyPlanPass

        return VerifyPlanPass

    def get_verify_program():
        from penstock.lowering.verify.program import VerifyProgramPass

        return VerifyProgramPass

    def get_verify_ticks():
        from penstock.lowering.verify.ticks import VerifyTicksPass

        return VerifyTicksPass

    return {
        "convert-job-to-plan": get_convert_job_to_plan,
        "convert-plan-to-launch": get_convert_plan_to_launch,
        "job-add-model-jobs": get_job_add_model_jobs,
        "job-add-push-pull": get_job_add_push_pull,
        "job-add-sections": get_job_add_sections,
        "job-clean": get_job_clean,
        "job-infer-sbp": get_job_infer_sbp,
        "job-insert-boxing": get_job_insert_boxing,
        "job-place": get_job_place,
        "launch-form-chains": get_launch_form_chains,
        "launch-form-waves": get_launch_form_waves,
        "launch-order-commits": get_launch_order_commits,
        "launch-schedule-attention": get_launch_schedule_attention,
        "launch-schedule-contractions": get_launch_schedule_contractions,
        "launch-schedule-tiles": get_launch_schedule_tiles,
        "launch-select-kernels": get_launch_select_kernels,
        "op-assign-layouts": get_op_assign_layouts,
        "op-fold-constants": get_op_fold_constants,
        "op-fuse-attention": get_op_fuse_attention,
        "op-fuse-elementwise": get_op_fuse_elementwise,
        "op-fuse-epilogues": get_op_fuse_epilogues,
        "op-fuse-rows": get_op_fuse_rows,
        "op-infer-shapes": get_op_infer_shapes,
        "op-split-pads": get_op_split_pads,
        "op-use-winograd": get_op_use_winograd,
        "op-widen-sums": get_op_widen_sums,
        "plan-add-ticks": get_plan_add_ticks,
        "plan-assign-streams": get_plan_assign_streams,
        "plan-create-registers": get_plan_create_registers,
        "plan-form-chains": get_plan_form_chains,
        "plan-form-waves": get_plan_form_waves,
        "plan-link-main": get_plan_link_main,
        "plan-merge-jobs": get_plan_merge_jobs,
        "plan-order-commits": get_plan_order_commits,
        "plan-order-tasks": get_plan_order_tasks,
        "plan-order-updates": get_plan_order_updates,
        "plan-reduce-events": get_plan_reduce_events,
        "plan-select-job": get_plan_select_job,
        "plan-write-times": get_plan_write_times,
        "regst-alias-registers": get_regst_alias_registers,
        "regst-choose-slots": get_regst_choose_slots,
        "regst-mark-interfaces": get_regst_mark_interfaces,
        "regst-plan-memory": get_regst_plan_memory,
        "verify-deadlock": get_verify_deadlock,
        "verify-jobs": get_verify_jobs,
        "verify-memory": get_verify_memory,
        "verify-plan": get_verify_plan,
        "verify-program": get_verify_program,
        "verify-ticks": get_verify_ticks,
    }
