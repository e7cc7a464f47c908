// RUN: penstock-opt %s --pipeline cpu | filecheck %s
// RUN: penstock-opt %s --pipeline cpu -t numba | filecheck %s --check-prefix=SOURCE
// RUN: penstock-opt %s --pipeline cuda -t numba | filecheck %s --check-prefix=DEVICE

// Ops whose counts are data have kernels of fixed extents: a loop over all elements
// writes those that are found, one after the other, and zeros from the count on.

// CHECK-LABEL: launch.kernel @non_zero_0
// CHECK:       scf.for {{.*}} iter_args(%[[FOUND:.+]] = %{{.+}}) -> (index)
// CHECK:         scf.if %{{.+}} {
// CHECK:           memref.store %{{.+}}, %{{.+}}[%{{.+}}, %{{.+}}] : memref<2x32xi64>
// The count is checked against the maximum only where there is one.
// CHECK-NOT:   cf.assert
// CHECK:       memref.store %{{.+}}, %{{.+}}[] : memref<i64>
// CHECK-LABEL: launch.kernel @non_zero_1
// CHECK:       cf.assert %{{.+}}, "there are more elements than the maximum 5"

// SOURCE-LABEL: # kernel non_zero_1
// SOURCE:         if not [[FITS:v[0-9]+]]:
// SOURCE-NEXT:      return 1
// DEVICE:              if not [[FITS:v[0-9]+]]:
// DEVICE-NEXT:           status[0] = 1

job.job @places placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4x8xf32>
  %p, %n = op.non_zero %a : tensor<4x8xf32> -> tensor<2x32xi64>, tensor<i64>
  %q, %m = op.non_zero %a max 5 : tensor<4x8xf32> -> tensor<2x5xi64>, tensor<i64>
  job.output "p", %p : tensor<2x32xi64>
  job.output "n", %n : tensor<i64>
  job.output "q", %q : tensor<2x5xi64>
  job.output "m", %m : tensor<i64>
}
