// RUN: penstock-opt %s -p plan-add-ticks,verify-ticks,verify-plan --split-input-file | filecheck %s
// RUN: penstock-opt %s -p plan-add-ticks,plan-add-ticks --split-input-file | filecheck %s

// The total source begins what waits for nothing, its sink ends what nobody waits for; an
// input's sink waits for who uses its bytes, also as a view; the source of outputs begins
// who writes what is handed out, its sink ends who uses that.

!r = !regst.data<tensor<4xf32>>
!v = !regst.data<tensor<2x2xf32>>

// CHECK-LABEL: plan.plan @all
plan.plan @all attributes {sections = [#job.section<"total", total reads ["w"]>, #job.section<"input/x", input reads ["x"]>, #job.section<"outputs", outputs writes ["y"]>]} {
  %x = regst.register "x/out" slots 1 on <0, host> : !r
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  %v = regst.register "v/out" slots 1 on <0, host> : !v
  %a = regst.register "a/out" slots 1 on <0, host> : !v
  %b = regst.register "b/out" slots 1 on <0, host> : !r
  // CHECK-DAG: %[[TX:.+]] = regst.register "total/source -> x" slots 1 on <0, host> : !regst.control
  // CHECK-DAG: %[[TB:.+]] = regst.register "total/source -> b" slots 1
  // CHECK-DAG: %[[YT:.+]] = regst.register "y -> total/sink" slots 1
  // CHECK-DAG: %[[ZT:.+]] = regst.register "z -> total/sink" slots 1
  // CHECK-DAG: %[[IX:.+]] = regst.register "input/x/source -> x" slots 1
  // CHECK-DAG: %[[XI:.+]] = regst.register "x -> input/x/sink" slots 1
  // CHECK-DAG: %[[VI:.+]] = regst.register "v -> input/x/sink" slots 1
  // CHECK-DAG: %[[AI:.+]] = regst.register "a -> input/x/sink" slots 1
  // CHECK-DAG: %[[OB:.+]] = regst.register "outputs/source -> b" slots 1
  // CHECK-DAG: %[[YO:.+]] = regst.register "y -> outputs/sink" slots 1
  // CHECK-DAG: %[[ZO:.+]] = regst.register "z -> outputs/sink" slots 1
  // CHECK-DAG: %[[IT:.+]] = regst.register "input/x/sink -> total/sink" slots 1
  // CHECK-DAG: %[[OT:.+]] = regst.register "outputs/sink -> total/sink" slots 1
  // CHECK:     plan.task "total/source" on <0, cpu:0> stream <tick, 0> order 0 ins() signals(%[[TX]], %[[TB]] :
  // CHECK-NEXT:  job.source_tick "total"
  // CHECK:     plan.task "input/x/source" on <0, cpu:0> stream <tick, 1> order 0 ins() signals(%[[IX]] :
  // CHECK:     plan.task "outputs/source" on <0, cpu:0> stream <tick, 2> order 0 ins() signals(%[[OB]] :
  // CHECK:     plan.task "x" {{.*}} waits(%[[TX]], %[[IX]] : {{.*}} signals(%[[XI]] :
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  // CHECK:     plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%{{.+}} : !regst.data<tensor<4xf32>>) {
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  // CHECK:     plan.task "v" {{.*}} signals(%[[VI]] :
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%v : !v) {
  ^bb0(%0: tensor<4xf32>):
    %1 = op.reshape %0 to [2, 2] : tensor<4xf32> -> tensor<2x2xf32>
    plan.yield %1 : tensor<2x2xf32>
  }
  // CHECK:     plan.task "a" {{.*}} signals(%{{.+}}, %[[AI]] :
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%v : !v) outs(%a : !v) {
  ^bb0(%0: tensor<2x2xf32>):
    %1 = op.relu %0 : tensor<2x2xf32> -> tensor<2x2xf32>
    plan.yield %1 : tensor<2x2xf32>
  }
  // CHECK:     plan.task "b" {{.*}} waits(%[[TB]], %[[OB]] :
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%b : !r) {
  ^bb0(%0: tensor<4xf32>):
    %1 = op.relu %0 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %1 : tensor<4xf32>
  }
  // CHECK:     plan.task "y" {{.*}} signals(%[[YT]], %[[YO]] :
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%b : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.output "y", %0 : tensor<4xf32>
    plan.yield
  }
  // CHECK:     plan.task "z" {{.*}} signals(%[[ZT]], %[[ZO]] :
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%b : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.foreign_output "z", %0 : tensor<4xf32>
    plan.yield
  }
  // CHECK:      plan.task "outputs/sink" on <0, cpu:0> stream <tick, 2> order 1 ins() waits(%[[YO]], %[[ZO]] : {{.*}}) signals(%[[OT]] :
  // CHECK-NEXT:   job.sink_tick "outputs"
  // CHECK:      plan.task "input/x/sink" on <0, cpu:0> stream <tick, 1> order 1 ins() waits(%[[XI]], %[[VI]], %[[AI]] : {{.*}}) signals(%[[IT]] :
  // CHECK:      plan.task "total/sink" on <0, cpu:0> stream <tick, 0> order 1 ins() waits(%{{.+}}, %[[YT]], %[[ZT]], %[[IT]], %[[OT]] :
}

// -----

// Each rank that a section acts on has its own ticks. The sink of what has no task waits
// for its source.

!r = !regst.data<tensor<4xf32>>

// CHECK-LABEL: plan.plan @ranks
plan.plan @ranks attributes {sections = [#job.section<"total", total>, #job.section<"input/gone", input reads ["gone"]>]} {
  %x = regst.register "x/out" slots 1 on <0, host> : !r
  %y = regst.register "y/out" slots 1 on <1, network> : !r
  // CHECK-DAG: regst.register "input/gone/source -> input/gone/sink"
  // CHECK-DAG: regst.register "total/source -> x" slots 1 on <0, host>
  // CHECK-DAG: regst.register "total/source@1 -> total/sink@1" slots 1 on <1, host>
  // CHECK-DAG: regst.register "z -> total/sink@1" slots 1 on <1, host>
  // CHECK:     plan.task "total/source" on <0, cpu:0> stream <tick, 0>
  // CHECK:     plan.task "total/source@1" on <1, cpu:0> stream <tick, 0>
  // CHECK:     plan.task "input/gone/source" on <0, cpu:0> stream <tick, 1>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<4xf32>):
    %1 = job.copy %0 to <1, cpu:0> : tensor<4xf32>
    plan.yield %1 : tensor<4xf32>
  }
  plan.task "z" on <1, cpu:0> stream <compute, 0> ins(%y : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.foreign_output "z", %0 : tensor<4xf32>
    plan.yield
  }
}

// -----

// Without sections there is nothing to begin.

// CHECK-LABEL: plan.plan @plain
// CHECK-NOT: tick
plan.plan @plain {
  %x = regst.register "x/out" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
}

// -----

// Aliases, also those written by hand, are no places.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @aliases
// CHECK:         plan.task "total/source"
// CHECK:         plan.task "total/sink"
plan.plan @aliases attributes {sections = [#job.section<"total", total>]} {
  %x = regst.register "x/out" slots 1 on <0, host> : !r
  %y = regst.register "y/out" alias %x : !r slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : !t
    plan.yield %0 : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
}

// -----

// The sources of all sections come before all assignments, also of what they do not use.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @updates
// CHECK:         "input/x/source -> assign"
// CHECK:         "outputs/source -> assign"
plan.plan @updates attributes {sections = [#job.section<"total", total reads ["w"] writes ["v"]>, #job.section<"input/x", input reads ["x"]>, #job.section<"outputs", outputs writes ["y"]>]} {
  %x = regst.register "x/out" slots 1 on <0, host> : !r
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  %v = regst.register "v/out" slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins() outs(%v : !r) {
    %0 = job.variable "v" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : !t
    plan.yield %0 : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) {
  ^bb0(%0: !t):
    job.output "y", %0 : !t
    plan.yield
  }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%w, %v : !r, !r) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
}

// -----

// In the plan of one rank, a section without tasks begins and ends on that rank.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @one_rank rank 1
// CHECK:         "input/x/source@1 -> input/x/sink@1"
// CHECK:         plan.task "input/x/source@1" on <1, cpu:0> stream <tick, 1>
// CHECK:         plan.task "input/x/sink@1" on <1, cpu:0> stream <tick, 1>
plan.plan @one_rank rank 1 attributes {sections = [#job.section<"total", total reads ["w"]>, #job.section<"input/x", input reads ["x"]>]} {
  %w = regst.register "w/out" slots 1 on <1, host> : !r
  plan.task "w" on <1, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : !t
    plan.yield %0 : !t
  }
}
