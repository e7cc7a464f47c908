// RUN: penstock-opt %s -p op-raise-patterns | filecheck %s

!x = tensor<4x8xf32>
!c = tensor<4x1xf32>
!g = tensor<8xf32>
!n = tensor<f32>

// A softmax is the powers of what is below the largest element, over their sum.
// CHECK-LABEL: job.job @softmax
job.job @softmax placement <cpu, [0:0]> {
  // CHECK:      %x = job.input "x"
  // CHECK-NEXT: %y = op.softmax %x axis 1 {acme.note = "last"} :
  // CHECK-NEXT: job.output "y", %y
  %x = job.input "x" : !x
  %m = op.reduce_max %x axes [1] keepdims : !x -> !c
  %d = op.sub %x, %m : !x, !c -> !x
  %e = op.exp %d : !x -> !x
  %s = op.reduce_sum %e axes [-1] keepdims : !x -> !c
  %y = op.div %e, %s {acme.note = "last"} : !x, !c -> !x
  job.output "y", %y : !x
}

// Quotients may be products with a reciprocal, and reductions be reshaped.
// CHECK-LABEL: job.job @spelled
job.job @spelled placement <cpu, [0:0]> {
  // CHECK:      %x = job.input "x"
  // CHECK-NEXT: %y = op.softmax %x axis 0 :
  // CHECK-NEXT: %z = op.log_softmax %x axis 0 :
  %x = job.input "x" : !x
  %m = op.reduce_max %x axes [0] : !x -> !g
  %k = op.reshape %m to [1, 8] : !g -> tensor<1x8xf32>
  %d = op.sub %x, %k : !x, tensor<1x8xf32> -> !x
  %e = op.exp %d : !x -> !x
  %s = op.reduce_sum %e axes [0] keepdims : !x -> tensor<1x8xf32>
  %i = op.reciprocal %s : tensor<1x8xf32> -> tensor<1x8xf32>
  %y = op.mul %i, %e : tensor<1x8xf32>, !x -> !x
  %m2 = op.reduce_max %x axes [0] keepdims : !x -> tensor<1x8xf32>
  %d2 = op.sub %x, %m2 : !x, tensor<1x8xf32> -> !x
  %e2 = op.exp %d2 : !x -> !x
  %s2 = op.reduce_sum %e2 axes [0] keepdims : !x -> tensor<1x8xf32>
  %l = op.log %s2 : tensor<1x8xf32> -> tensor<1x8xf32>
  %a = op.add %m2, %l : tensor<1x8xf32>, tensor<1x8xf32> -> tensor<1x8xf32>
  %z = op.sub %x, %a : !x, tensor<1x8xf32> -> !x
  job.output "y", %y : !x
  job.output "z", %z : !x
}

// A layer norm has a mean of squares about the mean; scale and bias are in the shape of
// rows. Squares may be powers or products, sums be divided by the number of terms.
// CHECK-LABEL: job.job @layer_norm
job.job @layer_norm placement <cpu, [0:0]> {
  // CHECK:      %b = job.input "b"
  // CHECK-NEXT: op.constant
  // CHECK-NEXT: op.constant
  // CHECK-NEXT: op.constant
  // CHECK-NEXT: %[[B:.+]] = op.reshape %b to [8] :
  // CHECK-NEXT: %y = op.layer_norm %x, %g, %[[B]] axis 1 epsilon 0.00100{{[0-9]+}} :
  // CHECK-NEXT: %[[ONE:.+]] = op.constant dense<1.000000e+00> : tensor<8xf32>
  // CHECK-NEXT: %z = op.layer_norm %x, %[[ONE]] axis 1 epsilon
  %x = job.input "x" : !x
  %g = job.input "g" : !g
  %b = job.input "b" : tensor<1x8xf32>
  %two = op.constant dense<2.0> : !n
  %eight = op.constant dense<8.0> : !n
  %eps = op.constant dense<1.0e-3> : !n
  %m = op.reduce_mean %x axes [1] keepdims : !x -> !c
  %d = op.sub %x, %m : !x, !c -> !x
  %q = op.pow %d, %two : !x, !n -> !x
  %v = op.reduce_mean %q axes [1] keepdims : !x -> !c
  %w = op.add %v, %eps : !c, !n -> !c
  %r = op.sqrt %w : !c -> !c
  %n = op.div %d, %r : !x, !c -> !x
  %s = op.mul %n, %g : !x, !g -> !x
  %y = op.add %s, %b : !x, tensor<1x8xf32> -> !x
  %t = op.reduce_sum %x axes [1] keepdims : !x -> !c
  %m2 = op.div %t, %eight : !c, !n -> !c
  %d2 = op.sub %x, %m2 : !x, !c -> !x
  %q2 = op.mul %d2, %d2 : !x, !x -> !x
  %v2 = op.reduce_mean %q2 axes [1] keepdims : !x -> !c
  %w2 = op.add %eps, %v2 : !n, !c -> !c
  %r2 = op.rsqrt %w2 : !c -> !c
  %z = op.mul %r2, %d2 : !c, !x -> !x
  job.output "y", %y : !x
  job.output "z", %z : !x
}

// An RMS norm, whose factors are grouped in another way.
// CHECK-LABEL: job.job @rms_norm
// CHECK:         %y = op.rms_norm %x, %g axis 1 epsilon
// CHECK-NEXT:    job.output
job.job @rms_norm placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %g = job.input "g" : !g
  %eps = op.constant dense<1.0e-3> : !n
  %q = op.mul %x, %x : !x, !x -> !x
  %v = op.reduce_mean %q axes [1] keepdims : !x -> !c
  %w = op.add %v, %eps : !c, !n -> !c
  %r = op.rsqrt %w : !c -> !c
  %f = op.mul %r, %g : !c, !g -> !x
  %y = op.mul %x, %f : !x, !x -> !x
  job.output "y", %y : !x
}

// Both forms of GELU, of a product, too.
// CHECK-LABEL: job.job @gelu
// CHECK:         %p = op.mul %x, %x
// CHECK-NEXT:    %y = op.gelu %p :
// CHECK-NEXT:    %z = op.gelu %x approximate "tanh" :
job.job @gelu placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %half = op.constant dense<0.5> : !n
  %one = op.constant dense<1.0> : !n
  %three = op.constant dense<3.0> : !n
  %root = op.constant dense<1.41421354> : !n
  %c = op.constant dense<0.044715> : !n
  %k = op.constant dense<0.797884583> : !n
  %p = op.mul %x, %x : !x, !x -> !x
  %a = op.div %p, %root : !x, !n -> !x
  %b = op.erf %a : !x -> !x
  %d = op.add %b, %one : !x, !n -> !x
  %e = op.mul %p, %d : !x, !x -> !x
  %y = op.mul %e, %half : !x, !n -> !x
  %q = op.pow %x, %three : !x, !n -> !x
  %r = op.mul %q, %c : !x, !n -> !x
  %s = op.add %x, %r : !x, !x -> !x
  %t = op.mul %s, %k : !x, !n -> !x
  %u = op.tanh %t : !x -> !x
  %v = op.add %u, %one : !x, !n -> !x
  %h = op.mul %x, %half : !x, !n -> !x
  %z = op.mul %h, %v : !x, !x -> !x
  job.output "y", %y : !x
  job.output "z", %z : !x
}

// What others use stays, and so does what is along several axes, or not along the last
// ones, what has another scale, or says where or how it runs: with the reason.
// CHECK-LABEL: job.job @declined
// CHECK-NOT: op.softmax
job.job @declined placement <cpu, [0:0-1]> {
  %x = job.input "x" : !x
  %h = job.input "h" : !c
  %eps = op.constant dense<1.0e-3> : !n
  %m = op.reduce_max %x axes [1] keepdims : !x -> !c
  %d = op.sub %x, %m : !x, !c -> !x
  %e = op.exp %d : !x -> !x
  %s = op.reduce_sum %e axes [1] keepdims : !x -> !c
  // CHECK: %y = op.div %e, %s {no_pattern = "softmax: others use what op.exp makes"} :
  %y = op.div %e, %s : !x, !c -> !x
  job.output "e", %e : !x
  job.output "y", %y : !x
  %m1 = op.reduce_max %x keepdims : !x -> tensor<1x1xf32>
  %d1 = op.sub %x, %m1 : !x, tensor<1x1xf32> -> !x
  %e1 = op.exp %d1 : !x -> !x
  %s1 = op.reduce_sum %e1 keepdims : !x -> tensor<1x1xf32>
  // CHECK: op.div {{.*}} {no_pattern = "softmax: it is along one axis, got [0, 1]"} :
  %y1 = op.div %e1, %s1 : !x, tensor<1x1xf32> -> !x
  job.output "y1", %y1 : !x
  %q = op.mul %x, %x : !x, !x -> !x
  %v = op.reduce_mean %q axes [0] keepdims : !x -> tensor<1x8xf32>
  %w = op.add %v, %eps : tensor<1x8xf32>, !n -> tensor<1x8xf32>
  %r = op.sqrt %w : tensor<1x8xf32> -> tensor<1x8xf32>
  // CHECK: op.div {{.*}} {no_pattern = "rms_norm: axes [0] are not the last ones"} :
  %z = op.div %x, %r : !x, tensor<1x8xf32> -> !x
  job.output "z", %z : !x
  %q1 = op.mul %x, %x : !x, !x -> !x
  %v1 = op.reduce_mean %q1 axes [1] keepdims {slots = 2 : i64} : !x -> !c
  %w1 = op.add %v1, %eps : !c, !n -> !c
  %r1 = op.sqrt %w1 : !c -> !c
  // CHECK: op.div {{.*}} {no_pattern = "rms_norm: op.reduce_mean asks for slots"} :
  %z1 = op.div %x, %r1 : !x, !c -> !x
  job.output "z1", %z1 : !x
  %q2 = op.mul %x, %x {placement = #job.placement<cpu, [0:1]>} : !x, !x -> !x
  %v2 = op.reduce_mean %q2 axes [1] keepdims : !x -> !c
  %w2 = op.add %v2, %eps : !c, !n -> !c
  %r2 = op.sqrt %w2 : !c -> !c
  // CHECK: op.div {{.*}} {no_pattern = "rms_norm: op.mul runs in another place"} :
  %z2 = op.div %x, %r2 : !x, !c -> !x
  job.output "z2", %z2 : !x
  %q3 = op.mul %x, %x {sbp = #job.sbp<B>} : !x, !x -> !x
  %v3 = op.reduce_mean %q3 axes [1] keepdims : !x -> !c
  %w3 = op.add %v3, %eps : !c, !n -> !c
  %r3 = op.sqrt %w3 : !c -> !c
  // CHECK: op.div {{.*}} {no_pattern = "rms_norm: op.mul runs in parts"} :
  %z3 = op.div %x, %r3 : !x, !c -> !x
  job.output "z3", %z3 : !x
  %q4 = op.mul %x, %x {in_place = [#op.hint<never>]} : !x, !x -> !x
  %v4 = op.reduce_mean %q4 axes [1] keepdims : !x -> !c
  %w4 = op.add %v4, %eps : !c, !n -> !c
  %r4 = op.sqrt %w4 : !c -> !c
  // CHECK: op.div {{.*}} {no_pattern = "rms_norm: op.mul has to write over something, or before others"} :
  %z4 = op.div %x, %r4 : !x, !c -> !x
  job.output "z4", %z4 : !x
  %q5 = op.mul %x, %x : !x, !x -> !x
  %v5 = op.reduce_mean %q5 axes [1] keepdims : !x -> !c
  %w5 = op.add %v5, %eps : !c, !n -> !c
  %r5 = op.sqrt %w5 : !c -> !c
  %n5 = op.div %x, %r5 : !x, !c -> !x
  // CHECK: %n5 = op.rms_norm
  // CHECK: op.mul %n5, %h {no_pattern = "rms_norm: the scale has the shape 4x1, not 8"} :
  %z5 = op.mul %n5, %h : !x, !c -> !x
  job.output "z5", %z5 : !x
}

// Powers that may overflow, and variances that are differences, are other formulas.
// CHECK-LABEL: job.job @others
job.job @others placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %eps = op.constant dense<1.0e-3> : !n
  %e = op.exp %x : !x -> !x
  %s = op.reduce_sum %e axes [1] keepdims : !x -> !c
  // CHECK: op.div {{.*}} {no_pattern = "softmax: the largest element is not subtracted, so that powers may overflow"} :
  %y = op.div %e, %s : !x, !c -> !x
  job.output "y", %y : !x
  %m = op.reduce_mean %x axes [1] keepdims : !x -> !c
  %d = op.sub %x, %m : !x, !c -> !x
  %q = op.mul %x, %x : !x, !x -> !x
  %v = op.reduce_mean %q axes [1] keepdims : !x -> !c
  %p = op.mul %m, %m : !c, !c -> !c
  %u = op.sub %v, %p : !c, !c -> !c
  %w = op.add %u, %eps : !c, !n -> !c
  %r = op.sqrt %w : !c -> !c
  // CHECK: op.div {{.*}} {no_pattern = "layer_norm: the variance is a difference of means, not a mean about the mean"} :
  %z = op.div %d, %r : !x, !c -> !x
  job.output "z", %z : !x
  // A number that is another one is no GELU.
  // CHECK: %g = op.mul %o, %f :
  %half = op.constant dense<0.5> : !n
  %one = op.constant dense<1.0> : !n
  %root = op.constant dense<1.5> : !n
  %a = op.div %x, %root : !x, !n -> !x
  %b = op.erf %a : !x -> !x
  %f = op.add %b, %one : !x, !n -> !x
  %o = op.mul %x, %half : !x, !n -> !x
  %g = op.mul %o, %f : !x, !x -> !x
  job.output "g", %g : !x
}
