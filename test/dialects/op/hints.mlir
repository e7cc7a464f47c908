// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// A hint is about the first result unless it names another one.

// CHECK-LABEL: job.job @hints
job.job @hints placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = job.input "y" : tensor<4xf32>
  // CHECK: op.add {{.*}} {in_place = [#op.hint<must over 1>, #op.hint<never over 0>]} :
  %a = op.add %x, %y {in_place = [#op.hint<must over 1>, #op.hint<result 0 never over 0>]} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  // CHECK: op.mul {{.*}} {in_place = [#op.hint<may over 0>, #op.hint<may over 1>]} :
  %m = op.mul %a, %y {in_place = [#op.hint<may over 0>, #op.hint<may over 1>]} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  // CHECK: op.split {{.*}} {in_place = [#op.hint<result 1 may over 0>, #op.hint<never>]} :
  %p, %q = op.split %m axis 0 sizes [1, 3] {in_place = [#op.hint<result 1 may over 0>, #op.hint<never>]} : tensor<4xf32> -> tensor<1xf32>, tensor<3xf32>
  // What the op knows as a pair may be of another type.
  // CHECK: op.cast {{.*}} {in_place = [#op.hint<may over 0>]} :
  %c = op.cast %q to i32 {in_place = [#op.hint<may over 0>]} : tensor<3xf32> -> tensor<3xi32>
  job.output "c", %c : tensor<3xi32>
}
