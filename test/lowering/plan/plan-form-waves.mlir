// RUN: penstock-opt %s -p plan-form-waves --split-input-file | filecheck %s
// RUN: penstock-opt %s -p plan-form-waves,plan-form-waves --split-input-file | filecheck %s
// RUN: penstock-opt %s -p plan-form-waves,plan-assign-streams,plan-create-registers,regst-alias-registers,regst-plan-memory,convert-plan-to-launch,launch-form-waves --split-input-file | filecheck %s --check-prefix=LAUNCH

!t = tensor<4xf32>

// Branches that need nothing of each other become one task. What makes what its members
// read is listed before it, what reads what they make behind it. All inputs and results are
// in memory at once: 4 x 16 bytes, where an input and a result were enough.

// CHECK-LABEL: plan.plan @branches
// CHECK-SAME:    waves = {apart = 32 : i64, live_bytes = 64 : i64, tasks = 2 : i64}
// CHECK:         %[[X0:.+]] = plan.task "x0"
// CHECK:         %[[X1:.+]] = plan.task "x1"
// CHECK:         %[[A:.+]], %[[B:.+]] = plan.task "a..b" on <0, cpu:0> stream <compute, 0> ins(%[[X0]], %[[X1]] : tensor<4xf32>, tensor<4xf32>)
// CHECK-NEXT:    ^bb0(%[[P:.+]]: tensor<4xf32>, %[[Q:.+]]: tensor<4xf32>):
// CHECK-NEXT:      %[[V:.+]], %[[W:.+]] = op.wave %[[P]], %[[Q]]
// CHECK:             op.exp
// CHECK:             op.tanh
// CHECK:           plan.yield %[[V]], %[[W]]
// CHECK:         plan.task "ya" {{.*}} ins(%[[A]]
// CHECK:         plan.task "yb" {{.*}} ins(%[[B]]
// LAUNCH-LABEL: launch.program @branches
// LAUNCH:         launch.kernel @wave_0 {{.*}} members = array<i64: 2, 2>
// LAUNCH:         launch.actor @a..b
// LAUNCH-NEXT:      launch.call @wave_0
// LAUNCH-NEXT:    }
plan.plan @branches {
  %x0 = plan.task "x0" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x0" : !t
    plan.yield %v : !t
  }
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x0 : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.exp %u : !t -> !t
    plan.yield %v : !t
  }
  plan.task "ya" on <0, cpu:0> stream <compute, 0> ins(%a : !t) {
  ^bb0(%v: !t):
    job.output "ya", %v : !t
    plan.yield
  }
  %x1 = plan.task "x1" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x1" : !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x1 : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.tanh %u : !t -> !t
    plan.yield %v : !t
  }
  plan.task "yb" on <0, cpu:0> stream <compute, 0> ins(%b : !t) {
  ^bb0(%v: !t):
    job.output "yb", %v : !t
    plan.yield
  }
}

// -----

!t = tensor<4xf32>

// One that reads what another one makes is of the next level. Each task that computes and is
// alone says why. Orders and chains are written anew.

// CHECK-LABEL: plan.plan @chain {
// CHECK:         plan.task "a" {{.*}} attributes {no_wave = "alone: no other is of its level"}
// CHECK:         plan.task "b" {{.*}} attributes {no_wave = "alone: no other is of its level"}
plan.plan @chain {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.exp %u : !t -> !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.tanh %u : !t -> !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%b : !t) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
}

// -----

!t = tensor<4xf32>
!l = tensor<262144xf32>

// What is large, may fail, is on a device, has several slots, waits, names a place, or may be a view is in
// no wave; what is on another stream is in none with the rest.

// CHECK-LABEL: plan.plan @declined {
// CHECK:         plan.task "large" {{.*}} attributes {no_wave = "size: it takes 32768 ns, more than 10000"}
// CHECK:         plan.task "gpu" {{.*}} attributes {no_wave = "target: it is on cuda"}
// CHECK:         plan.task "slots" {{.*}} attributes {{.*}}no_wave = "slots: its results have several"
// CHECK:         plan.task "waits" {{.*}} attributes {no_wave = "control: it waits for another task, or lets one go on"}
// CHECK:         plan.task "hint" {{.*}} attributes {no_wave = "hint: its op says where results lie"}
// CHECK:         plan.task "view" {{.*}} attributes {no_wave = "view: there may be nothing to do"}
// CHECK:         plan.task "check" {{.*}} attributes {no_wave = "error: it may end in one"}
// CHECK:         plan.task "other" {{.*}} attributes {no_wave = "alone: no other is of its level"}
// CHECK:         plan.task "fine" {{.*}} attributes {no_wave = "alone: no other is of its level"}
plan.plan @declined {
  %k = regst.register "fine -> waits" slots 1 on <0, host> : !regst.control
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %l = plan.task "l" on <0, cpu:0> stream <compute, 0> ins() -> !l {
    %v = job.input "l" : !l
    plan.yield %v : !l
  }
  %large = plan.task "large" on <0, cpu:0> stream <compute, 0> ins(%l : !l) -> !l {
  ^bb0(%u: !l):
    %v = op.relu %u : !l -> !l
    plan.yield %v : !l
  }
  %xg = plan.task "xg" on <0, cuda:0> stream <copy_h2d, 0> ins(%x : !t) -> !t {
  ^bb0(%u: !t):
    %v = job.copy %u to <0, cuda:0> : !t
    plan.yield %v : !t
  }
  %gpu = plan.task "gpu" on <0, cuda:0> stream <compute, 0> ins(%xg : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.exp %u : !t -> !t
    plan.yield %v : !t
  }
  %slots = plan.task "slots" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t attributes {slots = 2 : i64} {
  ^bb0(%u: !t):
    %v = op.exp %u : !t -> !t
    plan.yield %v : !t
  }
  %waits = plan.task "waits" on <0, cpu:0> stream <compute, 0> ins(%x : !t) waits(%k : !regst.control) -> !t {
  ^bb0(%u: !t):
    %v = op.exp %u : !t -> !t
    plan.yield %v : !t
  }
  %hint = plan.task "hint" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.exp %u {in_place = [#op.hint<may over 0>]} : !t -> !t
    plan.yield %v : !t
  }
  %view = plan.task "view" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> tensor<2x2xf32> {
  ^bb0(%u: !t):
    %v = op.reshape %u to [2, 2] : !t -> tensor<2x2xf32>
    plan.yield %v : tensor<2x2xf32>
  }
  %i = plan.task "i" on <0, cpu:0> stream <compute, 0> ins() -> tensor<2xi64> {
    %v = job.input "i" : tensor<2xi64>
    plan.yield %v : tensor<2xi64>
  }
  %check = plan.task "check" on <0, cpu:0> stream <compute, 0> can_fail ins(%x, %i : !t, tensor<2xi64>) -> tensor<2xf32> {
  ^bb0(%u: !t, %n: tensor<2xi64>):
    %v = op.gather %u[%n] axis 0 : !t, tensor<2xi64> -> tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  %other = plan.task "other" on <0, cpu:0> stream <compute, 1> ins(%x : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.exp %u : !t -> !t
    plan.yield %v : !t
  }
  %fine = plan.task "fine" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.exp %u : !t -> !t
    plan.yield %v : !t
  }
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%fine : !t) signals(%k : !regst.control) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
}
