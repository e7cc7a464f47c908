// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p op-infer-shapes | filecheck %s

// CHECK-LABEL: job.job @wave
job.job @wave placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %w = job.input "w" : tensor<8xf32>
  // CHECK:      %y, %z = op.wave %x, %w : tensor<4xf32>, tensor<8xf32> -> tensor<4xf32>, tensor<8xf32> {
  // CHECK-NEXT: ^bb0(%p: tensor<4xf32>, %q: tensor<8xf32>):
  // CHECK-NEXT:   %a = op.exp %p : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT:   %b = op.tanh %q : tensor<8xf32> -> tensor<8xf32>
  // CHECK-NEXT:   op.yield_wave %a, %b : tensor<4xf32>, tensor<8xf32>
  // CHECK-NEXT: }
  %y, %z = op.wave %x, %w : tensor<4xf32>, tensor<8xf32> -> tensor<4xf32>, tensor<8xf32> {
  ^bb0(%p: tensor<4xf32>, %q: tensor<8xf32>):
    %a = op.exp %p : tensor<4xf32> -> tensor<4xf32>
    %b = op.tanh %q : tensor<8xf32> -> tensor<8xf32>
    op.yield_wave %a, %b : tensor<4xf32>, tensor<8xf32>
  }
  job.output "y", %y : tensor<4xf32>
  job.output "z", %z : tensor<8xf32>
}
