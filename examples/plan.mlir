// A plan that was written by hand: relu(x + w) in three tasks, with every register laid
// out. The input's register and the output's share their bytes: "add" has read the
// input before "relu" writes, and the control register "next" keeps the next input
// back until the output was fetched.
//
//   penstock-run examples/plan.mlir --random-inputs 1 --check numpy

!t = tensor<4x8xf32>
!r = !regst.data<!t>

plan.plan @by_hand {
  %chunk = regst.chunk on <0, host> size 384
  %weights = regst.block in %chunk at 0 size 128
  %shared = regst.block in %chunk at 128 size 256

  %w = regst.register "w" in %weights at 0 slots 1 on <0, host> : !r
  %x = regst.register "x" in %shared at 0 slots 1 on <0, host> : !r
  %s = regst.register "sum" in %shared at 128 slots 1 on <0, host> : !r
  %y = regst.register "y" in %shared at 0 slots 1 on <0, host> : !r
  %next = regst.register "next" slots 1 initial 1 on <0, host> : !regst.control

  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <normal, seed = 3> : !t
    plan.yield %v : !t
  }
  plan.task "feed" on <0, cpu:0> stream <compute, 0> order 0
      ins() outs(%x : !r) waits(%next : !regst.control) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "add" on <0, cpu:0> stream <compute, 0> order 1
      ins(%x, %w : !r, !r) outs(%s : !r) {
  ^bb0(%a: !t, %b: !t):
    %v = op.add %a, %b : !t, !t -> !t
    plan.yield %v : !t
  }
  plan.task "relu" on <0, cpu:0> stream <compute, 0> order 2
      ins(%s : !r) outs(%y : !r) {
  ^bb0(%a: !t):
    %v = op.relu %a : !t -> !t
    plan.yield %v : !t
  }
  plan.task "fetch" on <0, cpu:0> stream <compute, 0> order 3
      ins(%y : !r) signals(%next : !regst.control) {
  ^bb0(%a: !t):
    job.output "y", %a : !t
    plan.yield
  }
}
