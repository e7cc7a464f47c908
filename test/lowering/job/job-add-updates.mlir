// RUN: penstock-opt %s -p job-add-updates --split-input-file | filecheck %s
// RUN: penstock-opt %s --pipeline train --split-input-file | filecheck %s

// A variable and its states are one group of ops on elements, and each is assigned. The
// step is counted where an optimizer needs it.

job.job @adam placement <cpu, [0:0]> {
  %g = job.input "g" : tensor<4xf32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  job.update %w by %g with <adam> : tensor<4xf32>
}
// CHECK-LABEL: @adam
// CHECK-NOT:     job.update
// CHECK:         %step = job.variable "adam/step" init <zeros> {pass = "update"} : tensor<i64>
// CHECK:         %w_m = job.variable "w/adam/m" init <zeros> {pass = "update"} : tensor<4xf32>
// CHECK-NEXT:    %w_v = job.variable "w/adam/v" init <zeros> {pass = "update"} : tensor<4xf32>
// CHECK:         %w_next, %w_m_next, %w_v_next = op.fused %w, %g, %w_m, %w_v, %{{.*}} attributes {pass = "update"} {
// CHECK:         job.assign %w_next to %w {pass = "update"} : tensor<4xf32>
// CHECK-NEXT:    job.assign %w_m_next to %w_m {pass = "update"} : tensor<4xf32>
// CHECK-NEXT:    job.assign %w_v_next to %w_v {pass = "update"} : tensor<4xf32>
// CHECK:         %[[next:.*]] = op.add %step, %{{.*}} {pass = "update"} : tensor<i64>
// CHECK-NEXT:    job.assign %[[next]] to %step {pass = "update"} : tensor<i64>

// -----

// No optimizer here needs the number of the step, and no variable counts it.

job.job @plain placement <cpu, [0:0]> {
  %g = job.input "g" : tensor<4xf32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  job.update %w by %g with <momentum> : tensor<4xf32>
}
// CHECK-LABEL: @plain
// CHECK-NOT:     "step"
// CHECK:         job.variable "w/momentum/buffer"
// CHECK-NOT:     "step"

// -----

// A step that the job has is counted, but not one that it assigns to itself.

job.job @counted placement <cpu, [0:0]> {
  %g = job.input "g" : tensor<4xf32>
  %t = job.variable "step" init <zeros> : tensor<i64>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  job.update %w by %g with <sgd> : tensor<4xf32>
}
// CHECK-LABEL: @counted
// CHECK:         job.assign %{{.*}} to %t {pass = "update"} : tensor<i64>

// -----

job.job @its_own placement <cpu, [0:0]> {
  %g = job.input "g" : tensor<4xf32>
  %n = job.input "n" : tensor<i64>
  %t = job.variable "step" init <zeros> : tensor<i64>
  job.assign %n to %t : tensor<i64>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  job.update %w by %g with <adam> : tensor<4xf32>
}
// CHECK-LABEL: @its_own
// CHECK:         job.assign %n to %t : tensor<i64>
// CHECK-NOT:     to %t

// -----

// Jobs that have updates count steps of their own: of several the variable "step" of one is left alone.

job.job @one placement <cpu, [0:0]> {
  %g = job.input "g" : tensor<4xf32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  job.update %w by %g with <adam> : tensor<4xf32>
}
job.job @two placement <cpu, [0:0]> {
  %g = job.input "h" : tensor<4xf32>
  %w = job.variable "v" init <ones> : tensor<4xf32>
  %s = job.variable "step" init <zeros> : tensor<i64>
  job.update %w by %g with <adam> : tensor<4xf32>
}
// CHECK-LABEL: @one
// CHECK:         job.variable "one/step"
// CHECK-LABEL: @two
// CHECK:         job.variable "two/step"

// -----

// A job that is alone may have a number of steps by its own name: another variable
// "step" is left alone.

job.job @apart placement <cpu, [0:0]> {
  %g = job.input "g" : tensor<4xf32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %t = job.variable "apart/step" init <zeros> : tensor<i64>
  %s = job.variable "step" init <zeros> : tensor<i64>
  job.update %w by %g with <adam> : tensor<4xf32>
}
// CHECK-LABEL: @apart
// CHECK:         %t = job.variable "apart/step"
// CHECK-NOT:     to %s
// CHECK:         job.assign %{{.*}} to %t
// CHECK-NOT:     to %s

// -----

// States lie as their variable does, and are the same part of a whole.

job.job @laid placement <cpu, [0:0-1]> {
  %g = job.input "g" : tensor<4xf32>
  %w = job.variable "w" init <ones> part [4] of [8] {sbp = #job.sbp<S(0)>} : tensor<4xf32>
  job.update %w by %g with <adagrad, initial = 0.5> : tensor<4xf32>
}
// CHECK-LABEL: @laid
// CHECK:         job.variable "w/adagrad/sum" init <constant, value = 0.5> part [4] of [8] {sbp = #job.sbp<S(0)>, pass = "update"} : tensor<4xf32>

// -----

// One norm is taken of all gradients of a group, each without its scale.

job.job @clipped placement <cpu, [0:0]> {
  %g = job.input "g" : tensor<4xf32>
  %h = job.input "h" : tensor<4xf32>
  %s = job.input "s" : tensor<f32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %b = job.variable "b" init <ones> : tensor<4xf32>
  %c = job.variable "c" init <ones> : tensor<4xf32>
  job.update %w by %g with <sgd, clip_norm = 1.0> scale %s : tensor<4xf32>
  job.update %b by %h with <sgd, clip_norm = 1.0> : tensor<4xf32>
  job.update %c by %h with <sgd, clip_norm = 1.0, clip_group = "c"> : tensor<4xf32>
}
// CHECK-LABEL: @clipped
// CHECK:         %[[own:.*]] = op.div %g, %s {pass = "update"}
// CHECK-NEXT:    op.mul %[[own]], %[[own]]
// CHECK-NEXT:    op.reduce_sum
// CHECK:         op.mul %h, %h
// CHECK-NEXT:    op.reduce_sum
// CHECK:         op.sqrt
// CHECK:         %[[clip:.*]] = op.minimum
// CHECK:         %[[scale:.*]] = op.cast %s to f64
// CHECK:         op.div %[[clip]], %[[scale]]
// CHECK:         op.reduce_sum
// CHECK:         op.minimum
// CHECK-NOT:     op.reduce_sum

// -----

// Where an update is skipped each value stays; the step does where all are skipped.

job.job @skipped placement <cpu, [0:0]> {
  %g = job.input "g" : tensor<4xf32>
  %over = job.input "over" : tensor<i1>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  job.update %w by %g with <adam> skip %over : tensor<4xf32>
}
// CHECK-LABEL: @skipped
// CHECK:         op.fused
// CHECK-COUNT-3:   op.where %over_1
// CHECK:         op.where %over, %step, %{{.*}} : tensor<i1>, tensor<i64>, tensor<i64>

// -----

// Schedules are scalar ops in f64 where they stand.

job.job @rate placement <cpu, [0:0]> {
  %t = job.input "t" : tensor<i64>
  %r = job.schedule <exponential, base = 0.5, gamma = 0.9> at %t : tensor<i64> -> tensor<f32>
  job.output "r", %r : tensor<f32>
}
// CHECK-LABEL: @rate
// CHECK:         %[[t:.*]] = op.cast %t to f64 {pass = "update"}
// CHECK:         op.pow %{{.*}}, %[[t]] {pass = "update"}
// CHECK:         %r = op.cast %{{.*}} to f32 {pass = "update"}
// CHECK-NEXT:    job.output "r", %r

// -----

// States, and what is computed of them, lie as the update says, where the variable is placed.

job.job @parts placement <cpu, [0:2]> {
  %w = job.variable "w" init <ones> {placement = #job.placement<cpu, [0:0-1]>} : tensor<4xf32>
  %m = job.variable "w/momentum/buffer" init <zeros> {placement = #job.placement<cpu, [0:0-1]>} : tensor<4xf32>
  %g = job.input "g" : tensor<4xf32>
  job.update %w by %g with <momentum> {sbp = #job.sbp<S(0)>} : tensor<4xf32>
  %v = job.variable "v" init <ones> {placement = #job.placement<cpu, [0:0-1]>} : tensor<4xf32>
  job.update %v by %g with <momentum> {sbp = #job.sbp<S(0)>} : tensor<4xf32>
}
// CHECK-LABEL: @parts
// CHECK:         job.variable "w/momentum/buffer" init <zeros> {placement = #job.placement<cpu, [0:0-1]>, sbp = #job.sbp<S(0)>}
// CHECK:         op.fused %w
// CHECK-SAME:      {pass = "update", placement = #job.placement<cpu, [0:0-1]>, sbp = #job.sbp<S(0)>}
// CHECK:         job.assign %w_next to %w
// CHECK:         job.variable "v/momentum/buffer" init <zeros> {placement = #job.placement<cpu, [0:0-1]>, sbp = #job.sbp<S(0)>, pass = "update"}

// -----

// What asks for nothing is left alone.

job.job @eval placement <cpu, [0:0]> {
  %t = job.variable "step" init <zeros> : tensor<i64>
  job.output "t", %t : tensor<i64>
}
// CHECK:      job.job @eval placement <cpu, [0:0]> {
// CHECK-NEXT:   %t = job.variable "step" init <zeros> : tensor<i64>
// CHECK-NEXT:   job.output "t", %t : tensor<i64>
// CHECK-NEXT: }

// -----

// A variable is updated where it is placed, and the norm of its gradient is summed there.

job.job @far placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> {placement = #job.placement<cpu, [1:0]>} : tensor<4xf32>
  %g = job.input "g" {placement = #job.placement<cpu, [1:0]>} : tensor<4xf32>
  job.update %w by %g with <momentum, clip_norm = 1.0> : tensor<4xf32>
}
// CHECK-LABEL: @far
// CHECK:         op.reduce_sum %{{.*}} {pass = "update", placement = #job.placement<cpu, [1:0]>}
// CHECK:         op.sqrt %{{.*}} {pass = "update"}
// CHECK:         job.variable "w/momentum/buffer" init <zeros> {placement = #job.placement<cpu, [1:0]>, pass = "update"}
// CHECK:         %w_next, %{{.*}} = op.fused %w, %{{.*}} {pass = "update", placement = #job.placement<cpu, [1:0]>}

// -----

// A table that only gathers read is updated by rows: those of equal indices are added up,
// and indices behind the last one that differs name no row.

job.job @rows placement <cpu, [0:0]> {
  %i = job.input "i" : tensor<3xi64>
  %d = job.input "d" : tensor<3x4xf32>
  %w = job.variable "w" init <ones> : tensor<9x4xf32>
  %g = op.embedding_gradient %d[%i] rows 9 : tensor<3x4xf32>, tensor<3xi64> -> tensor<9x4xf32>
  job.update %w by %g with <sparse_adam> : tensor<9x4xf32>
}
// CHECK-LABEL: @rows
// CHECK:         %[[place:.*]] = op.require %{{.*}} "gather index out of range"
// CHECK:         %[[rows:.*]], %{{.*}}, %[[number:.*]], %{{.*}}, %[[count:.*]] = op.unique %[[place]] sorted
// CHECK:         %[[sums:.*]] = op.embedding_gradient %d[%[[number]]] rows 3
// CHECK:         %[[used:.*]] = op.greater %[[count]]
// CHECK:         %[[own:.*]] = op.where %[[used]], %[[rows]], %{{.*}}
// CHECK:         %w_next, %w_m_next, %w_v_next = op.update_rows %[[own]] of %w, %w_m, %w_v by %[[sums]]
// CHECK:         job.assign %w_next to %w

// -----

// So is that of a rule by which a row without a gradient stays as it is, if rows are few.
// Rows of several gathers, and of several pieces, are those of one line of indices.

job.job @any placement <cpu, [0:0]> {
  %i = job.input "i" : tensor<2x1xi64>
  %j = job.input "j" : tensor<3xi32>
  %d = job.input "d" : tensor<2x1x4xf16>
  %e = job.input "e" : tensor<3x4xf16>
  %w = job.variable "w" init <ones> : tensor<40x4xf16>
  %a = op.embedding_gradient %d[%i] rows 40 : tensor<2x1x4xf16>, tensor<2x1xi64> -> tensor<40x4xf16>
  %b = op.embedding_gradient %e[%j] rows 40 : tensor<3x4xf16>, tensor<3xi32> -> tensor<40x4xf16>
  %both = op.add %a, %b : tensor<40x4xf16>, tensor<40x4xf16> -> tensor<40x4xf16>
  %sum = op.acc %both every 4 : tensor<40x4xf16> -> tensor<40x4xf16>
  %share = op.constant dense<0.25> : tensor<f16>
  %g = op.mul %sum, %share : tensor<40x4xf16>, tensor<f16> -> tensor<40x4xf16>
  %finite = op.all_finite %g : tensor<40x4xf16> -> tensor<i1>
  job.update %w by %g with <adagrad> : tensor<40x4xf16>
  job.output "finite", %finite : tensor<i1>
}
// CHECK-LABEL: @any
// CHECK:         op.concat
// CHECK:         op.pack %{{.*}} by 4 {{.*}} -> tensor<20x4xf16>
// CHECK:         op.pack %{{.*}} by 4 {{.*}} -> tensor<20xi64>
// CHECK:         %[[sums:.*]] = op.embedding_gradient %{{.*}} rows 20
// CHECK:         op.all_finite %[[sums]]
// CHECK:         op.update_rows %{{.*}} of %w, %w_sum by %[[sums]]

// -----

// Where they are many, or rows without gradients change, the whole table is gone through.

job.job @whole placement <cpu, [0:0]> {
  %i = job.input "i" : tensor<5xi64>
  %d = job.input "d" : tensor<5x4xf32>
  %w = job.variable "w" init <ones> : tensor<9x4xf32>
  %g = op.embedding_gradient %d[%i] rows 9 : tensor<5x4xf32>, tensor<5xi64> -> tensor<9x4xf32>
  job.update %w by %g with <sgd> : tensor<9x4xf32>
  %v = job.variable "v" init <ones> : tensor<90x4xf32>
  %h = op.embedding_gradient %d[%i] rows 90 : tensor<5x4xf32>, tensor<5xi64> -> tensor<90x4xf32>
  job.update %v by %h with <sgd, weight_decay = 0.1> : tensor<90x4xf32>
}
// CHECK-LABEL: @whole
// CHECK-NOT:     op.update_rows

// -----

// States that jobs assign to are no variables, and stay.

// CHECK-LABEL: job.job @states
// CHECK: job.assign %x to %s
// CHECK: job.assign %v_next to %v
job.job @states placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %v = job.variable "v" init <ones> : tensor<4xf32>
  %s = job.state : tensor<4xf32>
  job.assign %x to %s : tensor<4xf32>
  job.update %v by %s with <sgd, rate = 0.5> : tensor<4xf32>
}
