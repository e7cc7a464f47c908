// RUN: penstock-opt %s -t memory-report | filecheck %s
// RUN: penstock-opt %s -t 'memory-report{format=json}' | filecheck %s --check-prefix=JSON
// RUN: not penstock-opt %s -t 'memory-report{top=0}' 2>&1 | filecheck %s --check-prefix=TOP

!t = tensor<16xf32>
!r = !regst.data<!t>

// TOP: top must be at least 1, got 0

// Tasks of two streams that nothing orders may use registers at the same time, whatever
// the steps of one order are: the report names the largest rival. The bound is that of the
// order, so that what the streams take beside each other is above it.

// CHECK-LABEL: plan @streams: 4 steps on 2 streams
// CHECK:      memory <0, host>: activations peak 192 B (1.500 x the bound of 128 B), 192 B unshared; weights 0 B
// CHECK:      largest registers
// CHECK:      a/out{{.*}} 0-1 {{.*}}2 slots; b/out may be in use with it
// CHECK:      b/out{{.*}} 2-3 {{.*}}a/out may be in use with it
// JSON:       "name": "a/out"{{.*}}"always": false{{.*}}"unordered": 1, "reasons": ["2 slots", "b/out may be in use with it", "alive at the peak"]
plan.plan @streams {
  %chunk = regst.chunk on <0, host> size 192
  %kept = regst.block in %chunk at 0 size 192
  %a = regst.register "a/out" in %kept at 0 slots 2 on <0, host> : !r
  %b = regst.register "b/out" in %kept at 128 slots 1 on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%a : !r) {
    %v = job.input "a" : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> order 1 ins(%a : !r) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
  plan.task "b" on <0, cpu:0> stream <compute, 1> order 0 ins() outs(%b : !r) {
    %v = job.input "b" : !t
    plan.yield %v : !t
  }
  plan.task "z" on <0, cpu:0> stream <compute, 1> order 1 ins(%b : !r) {
  ^bb0(%v: !t):
    job.output "z", %v : !t
    plan.yield
  }
}

// Registers that lie on common bytes, as each act uses another slot of theirs, are not
// alive all the time: "x" and "b" count at their steps.

// CHECK-LABEL: plan @slots: 4 steps on 1 stream
// CHECK:      memory <0, host>: activations peak 256 B (1.000 x the bound of 256 B), 384 B unshared; weights 0 B
// CHECK:      {{^ +}}x{{ .*}} 0-1 {{.*}}2 slots
plan.plan @slots {
  %c = regst.chunk on <0, host> size 256
  %m = regst.block in %c at 0 size 256
  %x = regst.register "x" in %m at 0 slots 2 on <0, host> : !r
  %a = regst.register "a" in %m at 128 slots 2 on <0, host> : !r
  %b = regst.register "b" in %m at 0 slots 2 on <0, host> : !r
  %turn = regst.register "turn" slots 2 initial 2 on <0, host> : !regst.control
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) waits(%turn : !regst.control) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%b : !r) signals(%turn : !regst.control) {
  ^bb0(%0: !t):
    job.output "y", %0 : !t
    plan.yield
  }
}
