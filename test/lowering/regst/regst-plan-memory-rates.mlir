// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-plan-memory | filecheck %s
// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-plan-memory,plan-reduce-events,verify-plan | filecheck %s --check-prefix REDUCED
// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-choose-slots | filecheck %s --check-prefix SLOTS

!t = tensor<16x16xf32>

// What a loop makes lies on each other act by act: two values at a time, and the sum. The
// loop of the stream acts four times, then once what reads its sum.
// CHECK-LABEL: plan.plan @loop {
// SLOTS-LABEL: plan.plan @loop attributes {no_interval = "rates: tasks have no act in common that could begin once an interval"}
// REDUCED-LABEL: plan.plan @loop attributes {no_events = "rates: events are of acts that all tasks make equally often"}
job.job @loop placement <cpu, [0:0]> {
  // CHECK: regst.chunk on <0, host> size 3072
  // CHECK-NEXT: size 1024 sum 1024 bound 1024
  // CHECK-NEXT: size 2048 sum 4096 bound 2048
  // CHECK: regst.register "x/out" in %{{.+}} at [[X:[0-9]+]] slots 1
  // CHECK: regst.register "b/out" in %{{.+}} at [[X]] slots 1
  // CHECK: regst.register "y/out" in %{{.+}} at [[X]] slots 1
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %b = op.relu %a : !t -> !t
  // CHECK: regst.register "s -> x" slots 1 initial 1 on <0, host> : !regst.control
  // CHECK: regst.register "s -> y" slots 1 on <0, host> : !regst.control
  // CHECK: regst.register "y_1 -> x" slots 1 initial 1 on <0, host> : !regst.control
  // That the second loop follows the first one, the sum says.
  // REDUCED:      regst.register "s -> x" slots 1 initial 1
  // REDUCED-NEXT: regst.register "y_1 -> x" slots 1 initial 1
  %s = op.acc %b every 4 : !t -> !t
  %y = op.relu %s : !t -> !t
  job.output "y", %y : !t
}

// The first and the last task are a loop with one slot between them, but others that act
// less often stand between them in the stream.
// CHECK-LABEL: plan.plan @twisted attributes {unguarded = ["<0, cpu:0> <compute, 0>"]}
job.job @twisted placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %p = op.acc %a every 2 : !t -> !t
  %q = op.acc %p every 2 : !t -> !t
  %r = op.relu %p : !t -> !t
  job.output "r", %r : !t
  job.output "q", %q : !t
  %z = op.relu %x : !t -> !t
  job.output "z", %z : !t
}

// A register has its bytes once, in however many slots pieces are alive at once: the four of
// "a" until "y" has read them.
// CHECK-LABEL: plan.plan @pieces
job.job @pieces placement <cpu, [0:0]> {
  // CHECK: size 4096 sum 4096 bound 4096
  // CHECK: regst.register "a/out" in %{{.+}} at 0 slots 4
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %s = op.acc %a every 4 : !t -> !t
  %t = op.tanh %s : !t -> !t
  %r = op.repeat %t times 4 : !t -> !t
  %y = op.add %r, %a : !t, !t -> !t
  job.output "y", %y : !t
}

// Of too many acts to look at, each only needs what its own task uses.
// CHECK-LABEL: plan.plan @many
job.job @many placement <cpu, [0:0]> {
  // CHECK: size 6144 sum 6144 bound 2048
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %b = op.relu %a : !t -> !t
  %h = op.acc %b every 100 : !t -> !t
  %s = op.acc %h every 100 : !t -> !t
  %y = op.relu %s : !t -> !t
  job.output "y", %y : !t
}

// A task that asks for slots may act again before the others of its loop have: the loop is
// in order, but not closed.
// CHECK-LABEL: plan.plan @ahead
job.job @ahead placement <cpu, [0:0]> {
  // CHECK-NOT: "s -> p"
  // CHECK: regst.register "s -> y" slots 1 on <0, host> : !regst.control
  // CHECK-NOT: "s -> p"
  // CHECK: plan.task
  %x = job.input "x" : !t
  %p = op.repeat %x times 4 : !t -> !t
  %a = op.tanh %p {slots = 2 : i64} : !t -> !t
  %b = op.exp %a : !t -> !t
  %s = op.acc %b every 4 : !t -> !t
  %y = op.relu %s : !t -> !t
  job.output "y", %y : !t
}
