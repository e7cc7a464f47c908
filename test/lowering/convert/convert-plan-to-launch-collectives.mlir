// RUN: penstock-opt %s --pipeline 'cpu{collectives=ring}' | filecheck %s
// RUN: not penstock-opt %s -p 'job-place,job-infer-sbp,job-insert-boxing,convert-job-to-plan{collectives=ring},plan-create-registers,regst-plan-memory,convert-plan-to-launch{simulate-ranks=true}' 2>&1 | filecheck %s --check-prefix SIMULATED
// RUN: penstock-opt %s --pipeline 'cpu{collectives=ring simulate-ranks=true}' | filecheck %s --check-prefix COPIES

// A collective is an actor of each rank. One process has none to exchange with, so it
// copies.

// CHECK-LABEL: launch.program @sum_0 rank 0
// CHECK: launch.actor @"b@0.cpu.0"
// CHECK-NEXT: launch.collective "all_reduce" by "ring" over [0, 1] tag 0 [@"p@0.cpu.0/out"] into [@"b@0.cpu.0/out"]
// CHECK-LABEL: launch.program @sum_1 rank 1
// CHECK: launch.collective "all_reduce" by "ring" over [0, 1] tag 0
// CHECK: launch.send @"{{.*}}" to 0 tag 1
// SIMULATED: task 'b@0.cpu.0' takes part in a collective of several processes, and simulate-ranks runs one
// COPIES-NOT: launch.collective
job.job @sum placement <cpu, [0:0, 1:0]> {
  %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0)>} : tensor<8x6xf32>
  %p = op.reduce_sum %w axes [0] {sbp = #job.sbp<P>} : tensor<8x6xf32> -> tensor<6xf32>
  %b = job.boxing %p from <P> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> : tensor<6xf32>
  %r = op.relu %b {placement = #job.placement<cpu, [1:0]>} : tensor<6xf32> -> tensor<6xf32>
  job.output "y", %r : tensor<6xf32>
}
