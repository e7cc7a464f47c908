// RUN: penstock-opt %s -p convert-job-to-plan | filecheck %s --match-full-lines

// Each op becomes a task, named by the value that it makes.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %h = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %h : tensor<4xf32>
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @example {
// CHECK-NEXT:   %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
// CHECK:        %h = plan.task "h" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:   ^bb0(%x_1: tensor<4xf32>):
// CHECK-NEXT:     %h_1 = op.relu %x_1 : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:     plan.yield %h_1 : tensor<4xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%h : tensor<4xf32>) {
// CHECK:      }
// EXAMPLE-END
