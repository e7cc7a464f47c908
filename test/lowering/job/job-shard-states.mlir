// RUN: penstock-opt %s -p 'job-shard-states{stage=1 least=8}' | filecheck %s --check-prefixes CHECK,ONE
// RUN: penstock-opt %s -p 'job-shard-states{stage=2 least=8}' | filecheck %s --check-prefixes CHECK,TWO
// RUN: penstock-opt %s -p 'job-shard-states{stage=3 least=8}' | filecheck %s --check-prefixes CHECK,THREE
// RUN: penstock-opt %s -p 'job-shard-states' | filecheck %s --check-prefix NONE

// Without a stage all stays as it is.
// NONE-LABEL: job.job @gradient
// NONE:       job.variable "w" init <ones> :
// NONE:       op.reshape %x to [8, 4] {pass = "backward", sbp = #job.sbp<B>}
// NONE-NEXT:  job.update %w by %g with <momentum> :

// The update is computed in parts from stage 1 on, the gradient lies in parts from 2 on: what says how it lies says so.
// CHECK-LABEL: job.job @gradient
job.job @gradient placement <cpu, [0:0-1]> {
  // ONE: job.variable "w" init <ones> : tensor<8x4xf32>
  // TWO: job.variable "w" init <ones> : tensor<8x4xf32>
  %w = job.variable "w" init <ones> : tensor<8x4xf32>
  %x = job.input "x" : tensor<8x4xf32>
  // ONE: %g = op.reshape %x to [8, 4] {pass = "backward", sbp = #job.sbp<B>}
  // TWO: %g = op.reshape %x to [8, 4] {pass = "backward", sbp = #job.sbp<S(0)>}
  // TWO-NEXT: job.update %w by %g
  %g = op.reshape %x to [8, 4] {pass = "backward", sbp = #job.sbp<B>} : tensor<8x4xf32> -> tensor<8x4xf32>
  // ONE: job.update %w by %g with <momentum> {sbp = #job.sbp<S(0)>}
  // TWO-SAME: {sbp = #job.sbp<S(0)>}
  job.update %w by %g with <momentum> : tensor<8x4xf32>
}

// Ops of the forward pass share a gathered copy; one of the backward pass has its own, behind the gradient that it reads, or that an op before it reads.
// CHECK-LABEL: job.job @readers
job.job @readers placement <cpu, [0:0-1]> {
  // THREE: %v = job.variable "v" init <ones> {sbp = #job.sbp<S(0)>}
  %v = job.variable "v" init <ones> : tensor<8x4xf32>
  %x = job.input "x" : tensor<8x4xf32>
  // THREE: %v_whole = op.reshape %v to [8, 4] {sbp = #job.sbp<B>}
  // THREE-NEXT: %a = op.mul %x, %v_whole
  // THREE-NEXT: %b = op.add %a, %v_whole
  %a = op.mul %x, %v : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %b = op.add %a, %v : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  // THREE: [[D:%.+]] = op.neg %b
  %d = op.neg %b {pass = "backward"} : tensor<8x4xf32> -> tensor<8x4xf32>
  // THREE-NEXT: [[LATE:%.+]] = job.after %v, [[D]]
  // THREE-NEXT: [[COPY:%.+]] = op.reshape [[LATE]] to [8, 4] {sbp = #job.sbp<B>, pass = "backward"}
  // THREE-NEXT: %e = op.mul [[D]], [[COPY]]
  %e = op.mul %d, %v {pass = "backward"} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  // THREE-NEXT: [[LATER:%.+]] = job.after %v, [[D]]
  // THREE-NEXT: [[TURNED:%.+]] = op.reshape [[LATER]]
  // THREE-NEXT: op.transpose [[TURNED]]
  %t = op.transpose %v by [1, 0] {pass = "backward"} : tensor<8x4xf32> -> tensor<4x8xf32>
  // What only assigns, or takes a variable out, needs no copy of it.
  // THREE: job.output "v", %v
  job.output "v", %v : tensor<8x4xf32>
  // THREE: job.update %v by
  job.update %v by %e with <sgd> : tensor<8x4xf32>
}

// All jobs of a module know variables by the same layout.
// CHECK-LABEL: job.job @evaluate
job.job @evaluate placement <cpu, [0:0-1]> {
  // THREE: job.variable "v" init <ones> {sbp = #job.sbp<S(0)>}
  %v = job.variable "v" init <ones> : tensor<8x4xf32>
  // THREE: [[WHOLE:%.+]] = op.reshape %v to [8, 4] {sbp = #job.sbp<B>}
  // THREE-NEXT: op.neg [[WHOLE]]
  %y = op.neg %v : tensor<8x4xf32> -> tensor<8x4xf32>
  job.output "y", %y : tensor<8x4xf32>
}

// The first axis is cut that has equal parts; an update without states has nothing to split at stage 1.
// CHECK-LABEL: job.job @axes
job.job @axes placement <cpu, [0:0-3]> {
  %a = job.variable "a" init <ones> : tensor<6x8xf32>
  %b = job.variable "b" init <ones> : tensor<6x8xf32>
  // ONE: job.update %a by %a with <adamw> {sbp = #job.sbp<S(1)>}
  // TWO: job.update %a by {{.+}} with <adamw> {sbp = #job.sbp<S(1)>}
  job.update %a by %a with <adamw> : tensor<6x8xf32>
  // ONE-NEXT: job.update %b by %b with <sgd> :
  // TWO: op.reshape %b to [6, 8] {sbp = #job.sbp<S(1)>}
  // TWO-NEXT: job.update %b by {{.+}} with <sgd> {sbp = #job.sbp<S(1)>}
  job.update %b by %b with <sgd> : tensor<6x8xf32>
}

// A tensor that is too small, that has no equal parts, that is on one device, or whose update says how it lies, stays as it is.
// CHECK-LABEL: job.job @declined
job.job @declined placement <cpu, [0:0-1]> {
  %small = job.variable "small" init <ones> : tensor<14xf32>
  // CHECK: job.update %small by %small with <adamw> :
  job.update %small by %small with <adamw> : tensor<14xf32>
  %odd = job.variable "odd" init <ones> : tensor<5x9xf32>
  // CHECK: job.update %odd by %odd with <adamw> :
  job.update %odd by %odd with <adamw> : tensor<5x9xf32>
  %one = job.variable "one" init <ones> {placement = #job.placement<cpu, [0:1]>} : tensor<16xf32>
  // CHECK: job.update %one by %one with <adamw> :
  job.update %one by %one with <adamw> : tensor<16xf32>
  %told = job.variable "told" init <ones> : tensor<16x2xf32>
  // CHECK: job.update %told by %told with <adamw> {sbp = #job.sbp<S(1)>}
  job.update %told by %told with <adamw> {sbp = #job.sbp<S(1)>} : tensor<16x2xf32>
}

// On a mesh only dimensions count along which a variable is whole; an axis is cut again where it can be.
// CHECK-LABEL: job.job @mesh
job.job @mesh placement <cpu, [0:0-3], hierarchy = [2, 2]> {
  %w = job.variable "columns" init <ones> {sbp = #job.sbp<B, S(1)>} : tensor<8x8xf32>
  // ONE: job.update %w by %w with <adamw> {sbp = #job.sbp<S(0), S(1)>}
  job.update %w by %w with <adamw> : tensor<8x8xf32>
  %b = job.variable "rows" init <ones> : tensor<8x8xf32>
  // ONE: job.update %b by %b with <adamw> {sbp = #job.sbp<S(0), S(0)>}
  job.update %b by %b with <adamw> : tensor<8x8xf32>
}
