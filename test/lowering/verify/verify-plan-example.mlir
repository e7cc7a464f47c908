// RUN: penstock-opt %s -p verify-plan --verify-diagnostics

// Two registers have the same bytes, and nothing keeps their tasks apart.

!t = tensor<16xf32>
!r = !regst.data<tensor<16xf32>>

// EXAMPLE-BEFORE
plan.plan @example {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  // expected-error@+1 {{verify-plan: registers 'x' and 'y' share 64 bytes, but task 'x' may use 'x' after task 'y' has begun to write 'y'}}
  %y = regst.register "y" in %m at 0 slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) { %v = job.input "x" : !t plan.yield %v : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) { %v = job.input "y" : !t plan.yield %v : !t }
}
// EXAMPLE-END
