// RUN: penstock-opt %s -p job-infer-sbp | filecheck %s
// RUN: penstock-opt %s -p job-infer-sbp,job-infer-sbp | filecheck %s

// On one device there is nothing to choose; what an op asks for goes.

// CHECK-LABEL: job.job @one_device
// CHECK-NOT:     sbp
job.job @one_device placement <cpu, [0:1]> {
  %x = job.input "x" {sbp = #job.sbp<S(0)>} : tensor<4x6xf32>
  %r = op.relu %x {sbp = #job.sbp<S(1)>, operand_sbp = [#job.sbp<S(1)>]} : tensor<4x6xf32> -> tensor<4x6xf32>
}

// CHECK-LABEL: job.job @one_device_among_several
// CHECK:         op.relu %x {placement = #job.placement<cpu, [0:1]>} :
// CHECK:         op.relu %r {sbp = #job.sbp<S(1)>, operand_sbp = [#job.sbp<S(1)>]} :
job.job @one_device_among_several placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4x6xf32>
  %r = op.relu %x {sbp = #job.sbp<S(1)>, placement = #job.placement<cpu, [0:1]>} : tensor<4x6xf32> -> tensor<4x6xf32>
  %s = op.relu %r {sbp = #job.sbp<S(1)>} : tensor<4x6xf32> -> tensor<4x6xf32>
}

// Inputs are cut along their first axis and variables are whole: each device does its
// part of the batch, until a sum over it leaves terms.

// CHECK-LABEL: job.job @batch
job.job @batch placement <cpu, [0:0-1]> {
  // CHECK-NEXT: %x = job.input "x" {sbp = #job.sbp<S(0)>}
  %x = job.input "x" : tensor<5x6xf32>
  // CHECK-NEXT: %w = job.variable "w" init <zeros> {sbp = #job.sbp<B>}
  %w = job.variable "w" init <zeros> : tensor<6x8xf32>
  // CHECK-NEXT: op.matmul %x, %w {sbp = #job.sbp<S(0)>, operand_sbp = [#job.sbp<S(0)>, #job.sbp<B>]}
  %h = op.matmul %x, %w : tensor<5x6xf32>, tensor<6x8xf32> -> tensor<5x8xf32>
  // CHECK-NEXT: op.relu %h {sbp = #job.sbp<S(0)>, operand_sbp = [#job.sbp<S(0)>]}
  %r = op.relu %h : tensor<5x8xf32> -> tensor<5x8xf32>
  // CHECK-NEXT: op.reduce_sum %r axes [0] {sbp = #job.sbp<P>, operand_sbp = [#job.sbp<S(0)>]}
  %s = op.reduce_sum %r axes [0] : tensor<5x8xf32> -> tensor<8xf32>
  // CHECK-NEXT: job.output "y", %s : tensor<8xf32>
  job.output "y", %s : tensor<8xf32>
}

// A weight that is cut by columns cuts what follows: all operands that lie as they are
// wanted count, not the bytes of the others.

// CHECK-LABEL: job.job @columns
job.job @columns placement <cpu, [0:0-1]> {
  %x = job.variable "x" init <zeros> : tensor<16x6xf32>
  // CHECK: job.variable "w" init <zeros> {sbp = #job.sbp<S(1)>}
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<S(1)>} : tensor<6x8xf32>
  // CHECK: op.matmul %x, %w {sbp = #job.sbp<S(1)>, operand_sbp = [#job.sbp<B>, #job.sbp<S(1)>]}
  %h = op.matmul %x, %w : tensor<16x6xf32>, tensor<6x8xf32> -> tensor<16x8xf32>
  // CHECK-NEXT: job.variable "v"
  %v = job.variable "v" init <zeros> {sbp = #job.sbp<S(0)>} : tensor<8x2xf32>
  // CHECK-NEXT: op.matmul %h, %v {sbp = #job.sbp<P>, operand_sbp = [#job.sbp<S(1)>, #job.sbp<S(0)>]}
  %p = op.matmul %h, %v : tensor<16x8xf32>, tensor<8x2xf32> -> tensor<16x2xf32>
  // Of 16 x 2 x 4 bytes a sum that is cut takes one copy, a whole one two.
  // CHECK-NEXT: op.relu %p {sbp = #job.sbp<S(0)>, operand_sbp = [#job.sbp<S(0)>]}
  %r = op.relu %p : tensor<16x2xf32> -> tensor<16x2xf32>
}

// Between equal orders the bytes decide: to cut what is whole is free.

// CHECK-LABEL: job.job @cost
job.job @cost placement <cpu, [0:0-1]> {
  %a = job.variable "a" init <zeros> : tensor<4x4xf32>
  %b = job.variable "b" init <zeros> {sbp = #job.sbp<S(1)>} : tensor<4x4xf32>
  // CHECK: op.add %a, %b {sbp = #job.sbp<S(1)>, operand_sbp = [#job.sbp<S(1)>, #job.sbp<S(1)>]}
  %c = op.add %a, %b : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
}

// What comes from elsewhere is rather cut than sent whole to each device.

// CHECK-LABEL: job.job @from_elsewhere
job.job @from_elsewhere placement <cpu, [0:0-1]> {
  %x = job.input "x" {placement = #job.placement<cpu, [0:3]>} : tensor<4x4xf32>
  // CHECK: op.softmax %x {sbp = #job.sbp<S(0)>, operand_sbp = [#job.sbp<S(0)>]}
  %r = op.softmax %x : tensor<4x4xf32> -> tensor<4x4xf32>
}

// Results are what an op asks for; its operands are what takes least.

// CHECK-LABEL: job.job @hint
job.job @hint placement <cpu, [0:0-1]> {
  %x = job.input "x" {sbp = #job.sbp<B>} : tensor<4x6xf32>
  // CHECK: op.relu %x {sbp = #job.sbp<S(1)>, operand_sbp = [#job.sbp<S(1)>]}
  %r = op.relu %x {sbp = #job.sbp<S(1)>} : tensor<4x6xf32> -> tensor<4x6xf32>
  // CHECK: op.relu %r {sbp = #job.sbp<B>, operand_sbp = [#job.sbp<B>]}
  %s = op.relu %r {sbp = #job.sbp<B>} : tensor<4x6xf32> -> tensor<4x6xf32>
}

// Operands may be asked for too.

// CHECK-LABEL: job.job @operands
job.job @operands placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4x6xf32>
  %w = job.variable "w" init <zeros> : tensor<6x8xf32>
  // CHECK: op.matmul %x, %w {operand_sbp = [#job.sbp<S(1)>, #job.sbp<S(0)>], sbp = #job.sbp<P>}
  %h = op.matmul %x, %w {operand_sbp = [#job.sbp<S(1)>, #job.sbp<S(0)>]} : tensor<4x6xf32>, tensor<6x8xf32> -> tensor<4x8xf32>
}

// Too few elements for all devices: the tensor stays whole, or is cut along another axis.

// CHECK-LABEL: job.job @few
job.job @few placement <cpu, [0:0-2]> {
  // CHECK-NEXT: job.input "x" {sbp = #job.sbp<B>}
  %x = job.input "x" : tensor<2x6xf32>
  // CHECK-NEXT: op.relu %x {sbp = #job.sbp<B>, operand_sbp = [#job.sbp<B>]}
  %r = op.relu %x : tensor<2x6xf32> -> tensor<2x6xf32>
  // CHECK-NEXT: job.input "y" {sbp = #job.sbp<S(1)>}
  %y = job.input "y" {sbp = #job.sbp<S(1)>} : tensor<2x6xf32>
  // CHECK-NEXT: op.softmax %y axis 0 {sbp = #job.sbp<S(1)>,
  %s = op.softmax %y axis 0 : tensor<2x6xf32> -> tensor<2x6xf32>
}

// A constant has no say.

// CHECK-LABEL: job.job @constant
job.job @constant placement <cpu, [0:0-1]> {
  %c = op.constant dense<2.0> : tensor<4x4xf32>
  %x = job.variable "x" init <zeros> {sbp = #job.sbp<S(1)>} : tensor<4x4xf32>
  // CHECK: op.mul %c, %x {sbp = #job.sbp<S(1)>, operand_sbp = [#job.sbp<S(1)>, #job.sbp<S(1)>]}
  %m = op.mul %c, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
}

// On a hierarchy each dimension is chosen on its own; the second one cuts what the first
// one has left, here 3 rows of 6 each, which are too few for 4 devices.

// CHECK-LABEL: job.job @mesh
job.job @mesh placement <cpu, [0:0-7], hierarchy = [2, 4]> {
  // CHECK-NEXT: job.input "x" {sbp = #job.sbp<S(0), B>}
  %x = job.input "x" : tensor<6x8xf32>
  // CHECK-NEXT: job.variable "w" init <zeros> {sbp = #job.sbp<B, S(1)>}
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<B, S(1)>} : tensor<8x4xf32>
  // CHECK-NEXT: op.matmul %x, %w {sbp = #job.sbp<S(0), S(1)>, operand_sbp = [#job.sbp<S(0), B>, #job.sbp<B, S(1)>]}
  %h = op.matmul %x, %w : tensor<6x8xf32>, tensor<8x4xf32> -> tensor<6x4xf32>
  // CHECK-NEXT: op.reduce_sum %h axes [1] {sbp = #job.sbp<S(0), P>, operand_sbp = [#job.sbp<S(0), S(1)>]}
  %s = op.reduce_sum %h axes [1] : tensor<6x4xf32> -> tensor<6xf32>
}

// An extent that is not known cannot be cut.

// CHECK-LABEL: job.job @unknown
// CHECK-NEXT:    job.input "x" {sbp = #job.sbp<B>}
job.job @unknown placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<?xf32>
}

// An op that has both attributes is left as it is.

// CHECK-LABEL: job.job @decided
job.job @decided placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4xf32>
  // CHECK: op.relu %x {sbp = #job.sbp<B>, operand_sbp = [#job.sbp<B>]}
  %r = op.relu %x {sbp = #job.sbp<B>, operand_sbp = [#job.sbp<B>]} : tensor<4xf32> -> tensor<4xf32>
}

// The results of one op may lie in several ways.

// CHECK-LABEL: job.job @several_results
job.job @several_results placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4x2xf32>
  // CHECK: op.split %x axis 1 sizes [1, 1] {sbp = #job.sbp<S(0)>, operand_sbp = [#job.sbp<S(0)>]}
  %a, %b = op.split %x axis 1 sizes [1, 1] {sbp = [#job.sbp<S(0)>, #job.sbp<S(0)>]} : tensor<4x2xf32> -> tensor<4x1xf32>, tensor<4x1xf32>
}

// Nothing is brought to `P` where there is another choice, even if what else the op reads
// would lie there as it is wanted.

// CHECK-LABEL: job.job @asked_for_terms
job.job @asked_for_terms placement <cpu, [0:0-2]> {
  %x = job.input "x" : tensor<4x5xf32>
  // CHECK: job.variable "w" init <zeros> {sbp = #job.sbp<B>}
  %w = job.variable "w" init <zeros> : tensor<5x7xf32>
  // CHECK-NEXT: op.matmul %x, %w {sbp = #job.sbp<P>, operand_sbp = [#job.sbp<S(1)>, #job.sbp<S(0)>]}
  %h = op.matmul %x, %w {sbp = #job.sbp<P>} : tensor<4x5xf32>, tensor<5x7xf32> -> tensor<4x7xf32>
}

// A state lies as the first op that reads it wants it, and what is assigned to it so, too;
// without a reader it lies as variables do.

// CHECK-LABEL: job.job @states
job.job @states placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4xf32>
  // CHECK: %s = job.state {sbp = #job.sbp<S(0)>}
  %s = job.state : tensor<4xf32>
  // CHECK: %t = job.state {sbp = #job.sbp<B>}
  %t = job.state : tensor<4xf32>
  // CHECK: op.add %x, %s {sbp = #job.sbp<S(0)>, operand_sbp = [#job.sbp<S(0)>, #job.sbp<S(0)>]}
  %r = op.add %x, %s : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  // CHECK: job.assign %r to %s {operand_sbp = [#job.sbp<S(0)>, #job.sbp<S(0)>]}
  job.assign %r to %s : tensor<4xf32>
  // CHECK: job.assign %r to %t {operand_sbp = [#job.sbp<B>, #job.sbp<B>]}
  job.assign %r to %t : tensor<4xf32>
}

// Pieces have parts along each axis but the one that is packed.

// CHECK-LABEL: job.job @pieces
job.job @pieces placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<2x4xf32>
  %e = op.exp %x {sbp = #job.sbp<S(1)>} : tensor<2x4xf32> -> tensor<2x4xf32>
  // CHECK: op.pack %e by 3 {sbp = #job.sbp<S(1)>
  %p = op.pack %e by 3 : tensor<2x4xf32> -> tensor<6x4xf32>
  // CHECK: op.unpack %p by 3 {sbp = #job.sbp<S(1)>
  %u = op.unpack %p by 3 : tensor<6x4xf32> -> tensor<2x4xf32>
  // CHECK: op.last %u of 3 {sbp = #job.sbp<S(1)>
  %l = op.last %u of 3 : tensor<2x4xf32> -> tensor<2x4xf32>
  %f = op.exp %x {sbp = #job.sbp<S(0)>} : tensor<2x4xf32> -> tensor<2x4xf32>
  // CHECK: op.pack %f by 3 {sbp = #job.sbp<S(1)>
  %q = op.pack %f by 3 : tensor<2x4xf32> -> tensor<6x4xf32>
}

// A mean over a batch is a sum of what each device adds to it.

// CHECK-LABEL: job.job @mean
job.job @mean placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<6x4xf32>
  // CHECK: op.reduce_mean %x {sbp = #job.sbp<P>, operand_sbp = [#job.sbp<S(0)>]}
  %r = op.reduce_mean %x : tensor<6x4xf32> -> tensor<f32>
  job.output "r", %r : tensor<f32>
}
