// RUN: penstock-opt %s -p plan-create-registers | filecheck %s --match-full-lines

// The value of `x` gets a register, which `x` writes and `y` reads.

!t = tensor<4xf32>

// EXAMPLE-BEFORE
plan.plan @example {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.input "x" : !t plan.yield %v : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !t) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @example {
// CHECK-NEXT:   %x = regst.register "x/out" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// CHECK-NEXT:   plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
// CHECK:        plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<4xf32>>) {
// CHECK:      }
// EXAMPLE-END
