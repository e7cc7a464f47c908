// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s | penstock-opt | filecheck %s

// Ops of groups had names of their own up to 0.1: their text is read as `op.fused`, which
// may hold a group of ops on elements.

// CHECK-LABEL: job.job @epilogue
// CHECK:         op.fused %x, %r : {{.*}} -> tensor<4x4xf32> starts {
// CHECK:           op.matmul
// CHECK:           op.add
// CHECK:           op.fused
// CHECK:           op.yield
job.job @epilogue placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf32>
  %r = job.input "r" : tensor<4x4xf32>
  %y = op.epilogue %x, %r : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32> starts {
  ^bb0(%p: tensor<4x4xf32>, %q: tensor<4x4xf32>):
    %m = op.matmul %p, %p : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %s = op.add %m, %q : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %t = op.fused %s : tensor<4x4xf32> -> tensor<4x4xf32> {
    ^bb0(%u: tensor<4x4xf32>):
      %v = op.relu %u : tensor<4x4xf32> -> tensor<4x4xf32>
      op.yield %v : tensor<4x4xf32>
    }
    op.yield %t : tensor<4x4xf32>
  }
  job.output "y", %y : tensor<4x4xf32>
}

// CHECK-LABEL: job.job @rows
// CHECK:         %n, %s = op.fused %x
// CHECK:           op.yield %{{.+}}, %{{.+}} :
job.job @rows placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf32>
  %n, %s = "op.rows"(%x) ({
  ^bb0(%p: tensor<4x4xf32>):
    %s = op.exp %p : tensor<4x4xf32> -> tensor<4x4xf32>
    %n = op.softmax %s : tensor<4x4xf32> -> tensor<4x4xf32>
    op.yield_rows %n, %s : tensor<4x4xf32>, tensor<4x4xf32>
  }) : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  job.output "n", %n : tensor<4x4xf32>
  job.output "s", %s : tensor<4x4xf32>
}
