// RUN: penstock-opt %s -p op-infer-shapes --split-input-file | filecheck %s

// What is known of the inputs reaches every op after them.

// CHECK-LABEL: job.job @forward
job.job @forward placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x3xf32>
  // CHECK: op.reshape {{.*}} -> tensor<2x6xf32>
  %r = op.reshape %x to [2, -1] : tensor<4x3xf32> -> tensor<?x?xf32>
  // CHECK-NEXT: op.transpose {{.*}} : tensor<2x6xf32> -> tensor<6x2xf32>
  %t = op.transpose %r by [1, 0] : tensor<?x?xf32> -> tensor<?x?xf32>
  // CHECK-NEXT: job.output "y", %t : tensor<6x2xf32>
  job.output "y", %t : tensor<?x?xf32>
}

// -----

// What waits for others has the type of the first tensor.

// CHECK-LABEL: job.job @after
job.job @after placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %r = op.relu %x : tensor<4xf32> -> tensor<?xf32>
  // CHECK: job.after %r, %x : tensor<4xf32>, tensor<4xf32>
  %y = job.after %r, %x : tensor<?xf32>, tensor<4xf32>
  // CHECK-NEXT: op.relu %y : tensor<4xf32> -> tensor<4xf32>
  %s = op.relu %y : tensor<?xf32> -> tensor<?xf32>
  job.output "y", %s : tensor<?xf32>
}

// -----

// Declared and inferred extents complete each other.

// CHECK-LABEL: job.job @both_sides
job.job @both_sides placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x?xf32>
  // CHECK: op.transpose {{.*}} : tensor<4x?xf32> -> tensor<3x4xf32>
  %t = op.transpose %x by [1, 0] : tensor<4x?xf32> -> tensor<3x?xf32>
  job.output "y", %t : tensor<3x?xf32>
}

// -----

// Extents that follow from nothing stay open, and so do those of inputs.

// CHECK-LABEL: job.job @unknown
job.job @unknown placement <cpu, [0:0]> {
  // CHECK-NEXT: job.input "x" : tensor<?xf32>
  %x = job.input "x" : tensor<?xf32>
  // CHECK-NEXT: op.pad {{.*}} -> tensor<?xf32>
  %p = op.pad %x before [1] after [1] : tensor<?xf32> -> tensor<?xf32>
  job.output "y", %p : tensor<?xf32>
}

// -----

// A copy is like what it copies.

// CHECK-LABEL: job.job @copied
job.job @copied placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %r = op.reshape %x to [4] : tensor<4xf32> -> tensor<?xf32>
  // CHECK: job.copy {{.*}} : tensor<4xf32>
  %c = job.copy %r to <0, cuda:0> : tensor<?xf32>
  // CHECK-NEXT: op.relu {{.*}} -> tensor<4xf32>
  %y = op.relu %c : tensor<?xf32> -> tensor<?xf32>
  job.output "y", %y : tensor<?xf32>
}

// -----

// The ops inside a fused one are refined too.

// CHECK-LABEL: job.job @fused
job.job @fused placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %r = op.reshape %x to [4] : tensor<4xf32> -> tensor<?xf32>
  // CHECK: op.fused %r : tensor<4xf32> -> tensor<4xf32> {
  %f = op.fused %r : tensor<?xf32> -> tensor<?xf32> {
  // CHECK-NEXT: ^{{.*}}(%p: tensor<4xf32>):
  ^bb0(%p: tensor<?xf32>):
    // CHECK-NEXT: op.relu %p : tensor<4xf32> -> tensor<4xf32>
    %q = op.relu %p : tensor<?xf32> -> tensor<?xf32>
    // CHECK-NEXT: op.yield %q : tensor<4xf32>
    op.yield %q : tensor<?xf32>
  }
  job.output "y", %f : tensor<?xf32>
}

// -----

// Each result of an op has its own type.

// CHECK-LABEL: job.job @several_results
job.job @several_results placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x3xf32>
  // CHECK: %p, %q = op.split {{.*}} -> tensor<4x1xf32>, tensor<4x2xf32>
  %p, %q = op.split %x axis 1 sizes [1, 2] : tensor<4x3xf32> -> tensor<?x1xf32>, tensor<?x?xf32>
  job.output "p", %p : tensor<?x1xf32>
  job.output "q", %q : tensor<?x?xf32>
}

// -----

// An op of another dialect is fine as long as its types say all.

// CHECK-LABEL: job.job @foreign
job.job @foreign placement <cpu, [0:0]> {
  // CHECK-NEXT: "test.op"() : () -> tensor<4xf32>
  %x = "test.op"() : () -> tensor<4xf32>
  job.output "y", %x : tensor<4xf32>
}

// -----

// Only jobs are looked at.

// CHECK-LABEL: func.func @no_job
func.func @no_job(%x: tensor<4xf32>) -> tensor<?xf32> {
  // CHECK-NEXT: op.reshape {{.*}} -> tensor<?xf32>
  %r = op.reshape %x to [4] : tensor<4xf32> -> tensor<?xf32>
  return %r : tensor<?xf32>
}
