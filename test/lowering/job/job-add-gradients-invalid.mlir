// RUN: penstock-opt %s -p job-add-gradients --split-input-file --verify-diagnostics

job.job @unreached placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %v = job.variable "v" init <ones> : tensor<4xf32>
  %loss = op.reduce_sum %w axes [0] : tensor<4xf32> -> tensor<f32>
  // expected-error @below {{the loss does not depend on variable 'v'}}
  %g, %h = job.gradients of %loss by %w, %v : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

job.job @none placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %loss = job.input "loss" : tensor<f32>
  // expected-error @below {{the loss depends on none of the values derived by}}
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
}

// -----

job.job @stopped placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  // expected-error @below {{no gradient passes 'op.stop_gradient', through which the loss depends on variable 'w'}}
  %s = op.stop_gradient %w : tensor<4xf32> -> tensor<4xf32>
  %loss = op.reduce_sum %s axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
}

// -----

// Integers end the way of gradients, whatever is made of them: each op that makes some of
// the values derived by is named, beside values that the loss does not depend on at all.

job.job @integers placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %v = job.variable "v" init <ones> : tensor<4xf32>
  %u = job.variable "u" init <ones> : tensor<4xf32>
  %t = op.add %w, %v : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  // expected-error @below {{no gradient passes 'op.arg_max', through which the loss depends on variable 'w', variable 'v'}}
  %i = op.arg_max %t axis 0 : tensor<4xf32> -> tensor<1xi64>
  // expected-error @below {{no gradient passes 'op.cast', through which the loss depends on variable 'v'}}
  %j = op.cast %v to i64 : tensor<4xf32> -> tensor<4xi64>
  %k = op.add %i, %j : tensor<1xi64>, tensor<4xi64> -> tensor<4xi64>
  %f = op.cast %k to f32 : tensor<4xi64> -> tensor<4xf32>
  %loss = op.reduce_sum %f axes [0] : tensor<4xf32> -> tensor<f32>
  // expected-error @below {{the loss does not depend on variable 'u'}}
  %g, %h, %e = job.gradients of %loss by %w, %v, %u : tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Extents have to be known, and an op has to be one that says a gradient: all that is
// wrong is said at once.

job.job @open placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %x = job.input "x" {max_shape = array<i64: 8, 4>} : tensor<?x4xf32>
  // expected-error @below {{'op.mul' has no gradient: all extents have to be known, got tensor<?x4xf32>}}
  %y = op.mul %w, %x : tensor<4xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  // expected-error @below {{'op.reduce_sum' has no gradient: all extents have to be known, got tensor<?x4xf32>}}
  %loss = op.reduce_sum %y axes [0, 1] : tensor<?x4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
}

// -----

job.job @callback placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  // expected-error @below {{'job.boxing' has no gradient: gradients are made before tensors are moved between devices}}
  %y = job.boxing %w from <B> on <cpu, [0:0]> to <S(0)> on <cpu, [0:0-1]> : tensor<4xf32>
  %p = op.cum_prod %y axis 0 : tensor<4xf32> -> tensor<4xf32>
  %loss = op.reduce_sum %p axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
}

// -----

// Each op on the way in a body has to have a gradient.

job.job @body placement <cpu, [0:0]> {
  %x = job.variable "x" init <ones> : tensor<4xf32>
  // expected-error @below {{'op.loop' has no gradient: 'op.bitcast' in it has none: numbers do not follow from bits without jumps}}
  %y = op.loop 3 carries(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %z: tensor<4xf32>):
    %next = op.bitcast %z to f32 : tensor<4xf32> -> tensor<4xf32>
    op.yield %next : tensor<4xf32>
  }
  %loss = op.reduce_sum %y axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %x : tensor<f32>, tensor<4xf32>
}

// -----

job.job @products placement <cpu, [0:0]> {
  %x = job.variable "x" init <ones> : tensor<4xf32>
  %i = op.constant dense<[0, 0]> : tensor<2xi64>
  %u = op.constant dense<2.0> : tensor<2xf32>
  // expected-error @below {{'op.scatter_elements' has no gradient: updates of one place are multiplied with each other}}
  %y = op.scatter_elements %x[%i], %u axis 0 mode mul : tensor<4xf32>, tensor<2xi64>, tensor<2xf32> -> tensor<4xf32>
  %loss = op.reduce_sum %y axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %x : tensor<f32>, tensor<4xf32>
}
