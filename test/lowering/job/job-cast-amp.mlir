// RUN: penstock-opt %s -p 'job-cast-amp{type=bf16}' | filecheck %s
// RUN: penstock-opt %s -p job-cast-amp | filecheck %s --check-prefix NONE

// Without a type all stays as it is.
// NONE-NOT: bf16

// A value has one cast for all its readers, and one back.
// CHECK-LABEL: job.job @once
job.job @once placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf32>
  // CHECK: %x_bf16 = op.cast %x to bf16
  // CHECK-NEXT: %a_bf16 = op.matmul %x_bf16, %x_bf16
  // CHECK-NEXT: %a = op.cast %a_bf16 to f32
  // CHECK-NEXT: %b_bf16 = op.matmul %a_bf16, %x_bf16
  // CHECK-NEXT: %b = op.cast %b_bf16 to f32
  %a = op.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b = op.matmul %a, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  // CHECK-NEXT: op.exp %a : tensor<4x4xf32>
  %c = op.exp %a : tensor<4x4xf32> -> tensor<4x4xf32>
  // CHECK-NEXT: op.softmax %b axis 1 : tensor<4x4xf32>
  %d = op.softmax %b axis 1 : tensor<4x4xf32> -> tensor<4x4xf32>
  job.output "a", %a : tensor<4x4xf32>
  job.output "c", %c : tensor<4x4xf32>
  job.output "d", %d : tensor<4x4xf32>
}

// A grey op behind a black one is computed in 32 bits, also between white ones.
// CHECK-LABEL: job.job @black
job.job @black placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf32>
  %a = op.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %s = op.softmax %x axis 1 : tensor<4x4xf32> -> tensor<4x4xf32>
  // CHECK: op.add %a, %s : tensor<4x4xf32>
  %b = op.add %a, %s : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  // CHECK: op.matmul %b_bf16, %x_bf16
  %c = op.matmul %b, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  job.output "c", %c : tensor<4x4xf32>
}

// A grey op that no white one follows stays as it is; a clear one is moved along.
// CHECK-LABEL: job.job @ends
job.job @ends placement <cpu, [0:0]> {
  // CHECK-NEXT: %x = job.input
  %x = job.input "x" : tensor<2x8xf32>
  // CHECK-NEXT: %x_bf16 = op.cast %x
  // CHECK-NEXT: %r_bf16 = op.reshape %x_bf16
  %r = op.reshape %x to [4, 4] : tensor<2x8xf32> -> tensor<4x4xf32>
  // CHECK-NEXT: op.matmul %r_bf16
  %a = op.matmul %r, %r : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  // CHECK-NEXT: %t_bf16 = op.transpose %a_bf16
  // CHECK-NEXT: %t = op.cast %t_bf16 to f32
  %t = op.transpose %a by [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  // CHECK-NEXT: op.mul %t, %t : tensor<4x4xf32>
  %m = op.mul %t, %t : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  job.output "m", %m : tensor<4x4xf32>
}

// An op of other types keeps them.
// CHECK-LABEL: job.job @wide
job.job @wide placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf64>
  // CHECK: op.matmul %x, %x : tensor<4x4xf64>
  %a = op.matmul %x, %x : tensor<4x4xf64>, tensor<4x4xf64> -> tensor<4x4xf64>
  job.output "a", %a : tensor<4x4xf64>
}

// Where nothing gains, nothing changes.
// CHECK-LABEL: job.job @nothing
job.job @nothing placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // CHECK: op.add %x, %x : tensor<4xf32>
  %a = op.add %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "a", %a : tensor<4xf32>
}
