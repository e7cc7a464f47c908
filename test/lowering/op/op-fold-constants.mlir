// RUN: penstock-opt %s -p op-fold-constants,dce --split-input-file | filecheck %s
// RUN: penstock-opt %s -p 'op-fold-constants{max_elements=3},dce' --split-input-file | filecheck %s --check-prefix=LIMIT

// An op on constants becomes a constant, at once with those that follow from it.

// CHECK-LABEL: job.job @chain
// LIMIT-LABEL: job.job @chain
job.job @chain placement <cpu, [0:0]> {
  %a = op.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %b = op.constant dense<0.5> : tensor<2xf32>
  %s = op.add %a, %b : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  // CHECK-NEXT: %r = op.constant dense<[1.500000e+00, 0.000000e+00]> : tensor<2xf32>
  // CHECK-NEXT: job.output "y", %r
  // LIMIT-NEXT: %r = op.constant
  %r = op.relu %s : tensor<2xf32> -> tensor<2xf32>
  job.output "y", %r : tensor<2xf32>
}

// -----

// Where an op ran, its result is now.

// CHECK-LABEL: job.job @placed
job.job @placed placement <cuda, [0:0]> {
  %a = op.constant dense<-1.0> : tensor<2xf32>
  // CHECK-NEXT: op.constant {placement = #job.placement<cpu, [0:0]>} dense<0.000000e+00>
  %r = op.relu %a {placement = #job.placement<cpu, [0:0]>} : tensor<2xf32> -> tensor<2xf32>
  job.output "y", %r : tensor<2xf32>
}

// -----

// All results of an op are replaced together.

// CHECK-LABEL: job.job @several_results
// LIMIT-LABEL: job.job @several_results
job.job @several_results placement <cpu, [0:0]> {
  %a = op.constant dense<[1, 2, 3, 4, 5]> : tensor<5xi64>
  // CHECK-NEXT: %p = op.constant dense<1> : tensor<1xi64>
  // CHECK-NEXT: %q = op.constant dense<[2, 3, 4, 5]> : tensor<4xi64>
  // LIMIT: op.split
  %p, %q = op.split %a axis 0 sizes [1, 4] : tensor<5xi64> -> tensor<1xi64>, tensor<4xi64>
  job.output "p", %p : tensor<1xi64>
  job.output "q", %q : tensor<4xi64>
}

// -----

// A few numbers do not become many.

// CHECK-LABEL: job.job @large
// LIMIT-LABEL: job.job @large
job.job @large placement <cpu, [0:0]> {
  %a = op.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // CHECK:      op.constant dense<{{.*}}> : tensor<2x2xf32>
  // CHECK-NEXT: op.constant dense<{{.*}}> : tensor<32768x2xf32>
  // CHECK-NEXT: op.expand {{.*}} -> tensor<32769x2xf32>
  // LIMIT: op.expand
  %e = op.expand %a to [2, 2] : tensor<2xf32> -> tensor<2x2xf32>
  %f = op.expand %a to [32768, 2] : tensor<2xf32> -> tensor<32768x2xf32>
  %g = op.expand %a to [32769, 2] : tensor<2xf32> -> tensor<32769x2xf32>
  job.output "e", %e : tensor<2x2xf32>
  job.output "f", %f : tensor<32768x2xf32>
  job.output "g", %g : tensor<32769x2xf32>
}

// -----

// One operand that is not a constant is enough to leave an op.

// CHECK-LABEL: job.job @variable_operand
job.job @variable_operand placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2xf32>
  %a = op.constant dense<1.0> : tensor<2xf32>
  // CHECK: op.add
  %s = op.add %a, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  job.output "y", %s : tensor<2xf32>
}

// -----

// What is an error when it runs stays so.

// CHECK-LABEL: job.job @out_of_range
job.job @out_of_range placement <cpu, [0:0]> {
  %a = op.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %i = op.constant dense<2> : tensor<1xi64>
  // CHECK: op.gather
  %g = op.gather %a[%i] axis 0 : tensor<2xf32>, tensor<1xi64> -> tensor<1xf32>
  job.output "y", %g : tensor<1xf32>
}

// -----

// A type that leaves an extent open is no constant's.

// CHECK-LABEL: job.job @unknown_shape
job.job @unknown_shape placement <cpu, [0:0]> {
  %a = op.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // CHECK: op.reshape
  %r = op.reshape %a to [-1, 1] : tensor<2xf32> -> tensor<?x1xf32>
  job.output "y", %r : tensor<?x1xf32>
}

// -----

// Neither the sign of a zero nor a NaN is lost, and overflow gives infinity silently.

// CHECK-LABEL: job.job @special_values
job.job @special_values placement <cpu, [0:0]> {
  // -0.0, a NaN with a payload, 3e38.
  %a = op.constant dense<"0x000000800100C07FE6B1617F"> : tensor<3xf32>
  // CHECK-NEXT: op.constant dense<"0xE6B1617F0100C07F00000080">
  // CHECK-NEXT: op.constant dense<"0x000000800100C07F0000807F">
  %r = op.slice %a from [-1] to [-9] by [-1] : tensor<3xf32> -> tensor<3xf32>
  %s = op.add %a, %a : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  job.output "r", %r : tensor<3xf32>
  job.output "s", %s : tensor<3xf32>
}

// -----

// CHECK-LABEL: job.job @fused
job.job @fused placement <cpu, [0:0]> {
  %a = op.constant dense<[true, false]> : tensor<2xi1>
  // CHECK-NEXT: op.constant dense<[false, true]> : tensor<2xi1>
  %t = op.slice %a from [-1] to [-9] by [-1] : tensor<2xi1> -> tensor<2xi1>
  job.output "t", %t : tensor<2xi1>
  %b = op.constant dense<[1.0, -2.0]> : tensor<2xf32>
  // CHECK: op.constant dense<[1.000000e+00, 0.000000e+00]> : tensor<2xf32>
  %f = op.fused %b : tensor<2xf32> -> tensor<2xf32> {
  ^bb0(%p: tensor<2xf32>):
    %q = op.relu %p : tensor<2xf32> -> tensor<2xf32>
    op.yield %q : tensor<2xf32>
  }
  job.output "y", %f : tensor<2xf32>
}

// -----

// One number for more elements than a result may have stays one number.
// CHECK-LABEL: job.job @filled
job.job @filled placement <cpu, [0:0]> {
  %a = op.constant dense<1.0> : tensor<1073741824xf32>
  // CHECK: op.slice
  %s = op.slice %a from [0] to [2] by [1] : tensor<1073741824xf32> -> tensor<2xf32>
  job.output "s", %s : tensor<2xf32>
}

// -----

// A triangle of elements is computed, one of two numbers stays.
// CHECK-LABEL: job.job @triangles
job.job @triangles placement <cpu, [0:0]> {
  %a = op.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %one = op.constant dense<1.0> : tensor<2x2xf32>
  %zero = op.constant dense<0.0> : tensor<f32>
  // CHECK: %s = op.constant dense<{{\[\[}}1.000000e+00, 0.000000e+00], [3.000000e+00, 4.000000e+00]]>
  %s = op.triangle %a, %zero to [2, 2] offset 0 : tensor<2x2xf32>, tensor<f32> -> tensor<2x2xf32>
  // CHECK: %t = op.triangle
  %t = op.triangle %one, %zero to [2, 2] offset 0 : tensor<2x2xf32>, tensor<f32> -> tensor<2x2xf32>
  job.output "s", %s : tensor<2x2xf32>
  job.output "t", %t : tensor<2x2xf32>
}
