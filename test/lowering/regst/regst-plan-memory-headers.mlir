// RUN: penstock-opt %s -p plan-create-registers,regst-alias-registers,regst-plan-memory,verify-plan | filecheck %s

// Headers lie in a block of their own, side by side: nothing shares their bytes, though those
// of their registers may be shared. A slot of these has the bytes of the maximum, 8 x 4 x 4;
// headers lie 64 bytes apart: 3 x 64 + 16.

!t = tensor<?x4xf32>

// CHECK-LABEL: plan.plan @dynamic
// CHECK:         %[[CHUNK:.+]] = regst.chunk on <0, host>
// CHECK-NEXT:    %[[HEADERS:.+]] = regst.block in %[[CHUNK]] at {{[0-9]+}} size 208
// CHECK-NEXT:    %[[SHARED:.+]] = regst.block in %[[CHUNK]] at {{[0-9]+}} size 256
// CHECK:         regst.register "a/out" in %[[SHARED]] at [[PLACE:.+]] slots 1 on
// CHECK-NEXT:    regst.register "a/out/header" in %[[HEADERS]] at 0 slots 1 header "a/out"
// CHECK:         regst.register "b/out/header" in %[[HEADERS]] at 64 slots 1 header "b/out"
// CHECK:         regst.register "c/out" in %[[SHARED]] at [[PLACE]] slots 1 on
// CHECK-NEXT:    regst.register "c/out/header" in %[[HEADERS]] at 128 slots 1 header "c/out"
// CHECK:         regst.register "d/out/header" in %[[HEADERS]] at 192 slots 1 header "d/out"
plan.plan @dynamic {
  %x = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {max_shape = array<i64: 8, 4>} {
    %v = job.input "a" : !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t attributes {max_shape = array<i64: 8, 4>} {
  ^bb0(%v: !t):
    %r = op.relu %v : !t -> !t
    plan.yield %r : !t
  }
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%b : !t) -> !t attributes {max_shape = array<i64: 8, 4>} {
  ^bb0(%v: !t):
    %r = op.relu %v : !t -> !t
    plan.yield %r : !t
  }
  %d = plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%c : !t) -> !t attributes {max_shape = array<i64: 8, 4>} {
  ^bb0(%v: !t):
    %r = op.relu %v : !t -> !t
    plan.yield %r : !t
  }
}
