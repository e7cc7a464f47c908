// Passes of Penstock count what they do.
// RUN: penstock-opt %s --pipeline cpu --pass-statistics 2>&1 >%t.out | filecheck %s

// CHECK:      'op-fuse-elementwise' Pass
// CHECK-NEXT:   (S) 5 ops before
// CHECK-NEXT:   (S) 1 groups
// CHECK-NEXT:   (S) 2 ops fused
// CHECK-NEXT:   (S) 7 ops after
// CHECK:      'regst-plan-memory' Pass
// CHECK:        (S) {{ *}}2 registers placed
// CHECK-NEXT:   (S) {{ *}}0 problems packed
// CHECK:      'plan-reduce-events' Pass
// CHECK:        (S) {{ *}}0 controls removed
job.job @two placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %a = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  %y = op.exp %a : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
