// RUN: penstock-opt %s -p 'op-fuse-elementwise{max-ops=2}' | filecheck %s
// RUN: not penstock-opt %s -p 'op-fuse-elementwise{max-ops=0}' 2>&1 | filecheck %s --check-prefix=ZERO

// ZERO: op-fuse-elementwise: max_ops must be at least 1, got 0

// Groups are filled from the end of the job; constants are not counted.

!t = tensor<4xf32>

// CHECK-LABEL: job.job @bounded
job.job @bounded placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %k = op.constant dense<1.0> : tensor<f32>
  // CHECK:      %a = op.relu %x
  %a = op.relu %x : !t -> !t
  // CHECK-NEXT: %c = op.fused %a
  // CHECK:        op.relu
  // CHECK-NEXT:   op.relu
  // CHECK-NEXT:   op.yield
  %b = op.relu %a : !t -> !t
  %c = op.relu %b : !t -> !t
  // CHECK:      %e = op.fused %c
  // CHECK:        op.relu
  // CHECK-NEXT:   op.constant
  // CHECK-NEXT:   op.add
  // CHECK-NEXT:   op.yield
  %d = op.relu %c : !t -> !t
  %e = op.add %d, %k : !t, tensor<f32> -> !t
  job.output "y", %e : !t
}
