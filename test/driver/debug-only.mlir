// One pass logs its steps, others do not.
// RUN: penstock-opt %s -p job-clean,op-infer-shapes,cse --debug-only=op-infer-shapes,cse 2>&1 >%t.out | filecheck %s

// All of Penstock does.
// RUN: penstock-opt %s -p job-clean,cse --debug-only=all 2>&1 >%t.out | filecheck %s --check-prefix=OURS

// Decisions of passes, and steps of the tools around them.
// RUN: penstock-opt %s --pipeline cpu --debug-only=regst-plan-memory,tools.driver 2>&1 >%t.out | filecheck %s --check-prefix=STEPS

// STEPS:      [lowering.regst.plan_memory] guards
// STEPS-NEXT: [lowering.regst.plan_memory] x/out at range(0, 16)
// STEPS-NEXT: [lowering.regst.plan_memory] regst-plan-memory: {{[0-9.]+}} ms

// CHECK-NOT: clean
// CHECK:     [lowering.op.infer_shapes] op-infer-shapes: {{[0-9.]+}} ms
// CHECK-NOT: clean
// CHECK:     [xdsl.transforms.common_subexpression_elimination] cse: {{[0-9.]+}} ms

// OURS: [lowering.job.clean] job-clean: {{[0-9.]+}} ms
job.job @empty placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "y", %x : tensor<4xf32>
}
