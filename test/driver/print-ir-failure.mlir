// The IR after a pass that failed, and of no other.
// RUN: not penstock-opt %s -p op-infer-shapes,verify-jobs,cse --mlir-print-ir-after-failure 2>&1 | filecheck %s

// A pass that is named is dumped when it fails.
// RUN: not penstock-opt %s -p op-infer-shapes,verify-jobs,cse --mlir-print-ir-after=verify-jobs 2>&1 | filecheck %s

// CHECK-NOT:  IR Dump After op-infer-shapes
// CHECK:      // -----// IR Dump After verify-jobs Failed //----- //
// CHECK-NEXT: builtin.module {
// CHECK:      error: verify-jobs:

job.job @one placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  job.output "y", %w : tensor<4xf32>
}
job.job @other placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<5xf32>
  job.output "z", %w : tensor<5xf32>
}
