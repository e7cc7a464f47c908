// RUN: penstock-opt %s -t memory-report | filecheck %s
// RUN: penstock-opt %s -t 'memory-report{format=json}' | filecheck %s --check-prefix=JSON
// RUN: not penstock-opt %s -t 'memory-report{format=xml}' 2>&1 | filecheck %s --check-prefix=FORMAT
// RUN: penstock-opt %s --memory-map %t.html
// RUN: filecheck %s --input-file %t.html --check-prefix=PAGE

!t = tensor<4x8xf32>
!r = !regst.data<!t>

// Sums of the bytes, the fullest step, the largest owners, and why a register shares
// its bytes with no other.

// CHECK:      plan @report: 3 steps on 1 stream
// CHECK:      memory <0, host>: activations peak 256 B (1.000 x the bound of 256 B), 256 B unshared; weights 0 B
// CHECK:      largest at the peak, step 1: relu
// CHECK:      x/out{{ +}}shared{{ +}}0{{ +}}128{{ +}}1{{ +}}0-1{{ +}}feed{{ +}}relu{{ +}}alive at the peak
// JSON:       "plan": "report"
// JSON:       "fill": {"variables": 0, "peak": 256, "bound": 256, "sum": 256}
// JSON:       "live": [128, 256, 128]
// JSON:       "peak_step": 1
// FORMAT:     unknown format 'xml', known are: text, json
// PAGE:       <!DOCTYPE html>
// PAGE:       <title>Memory of @report</title>
plan.plan @report {
  %chunk = regst.chunk on <0, host> size 256
  %shared = regst.block in %chunk at 0 size 256
  %x = regst.register "x/out" in %shared at 0 slots 1 on <0, host> : !r
  %y = regst.register "y/out" in %shared at 128 slots 1 on <0, host> : !r
  plan.task "feed" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "relu" on <0, cpu:0> stream <compute, 0> order 1 ins(%x : !r) outs(%y : !r) {
  ^bb0(%a: !t):
    %v = op.relu %a : !t -> !t
    plan.yield %v : !t
  }
  plan.task "fetch" on <0, cpu:0> stream <compute, 0> order 2 ins(%y : !r) {
  ^bb0(%a: !t):
    job.output "y", %a : !t
    plan.yield
  }
}
