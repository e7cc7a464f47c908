// RUN: penstock-opt %s -p plan-form-waves | filecheck %s --match-full-lines

// Two small tasks that need nothing of each other become one, whose members threads
// share out.

!t = tensor<4xf32>

// EXAMPLE-BEFORE
plan.plan @example {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.input "x" : !t plan.yield %v : !t }
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t { ^bb0(%v: !t): %u = op.exp %v : !t -> !t plan.yield %u : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%a : !t) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%b : !t) { ^bb0(%v: !t): job.output "z", %v : !t plan.yield }
}
// EXAMPLE-AFTER
// CHECK:        %a, %b = plan.task "a..b" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32>, tensor<4xf32> {
// CHECK-NEXT:   ^bb0(%x_1: tensor<4xf32>):
// CHECK-NEXT:     %[[LEFT:.+]], %[[RIGHT:.+]] = op.wave %x_1 : tensor<4xf32> -> tensor<4xf32>, tensor<4xf32> {
// CHECK-NEXT:     ^bb0(%x_2: tensor<4xf32>):
// CHECK-NEXT:       %u = op.relu %x_2 : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:       %u_1 = op.exp %x_2 : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:       op.yield_wave %u, %u_1 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     plan.yield %[[LEFT]], %[[RIGHT]] : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   }
// EXAMPLE-END
