// RUN: penstock-opt -p op-select-branches{up-to=4096} %s | filecheck %s

// Elements that a loop moves count in each iteration: 3 * 128 are few.

// CHECK-LABEL: job.job @short
// CHECK-NOT:   op.if
// CHECK:       op.loop 3
// CHECK:       op.where
job.job @short placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x8xf32>
  %c = job.input "c" : tensor<i1>
  %y = op.if %c reads(%x : tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<8x8xf32>):
    %r = op.loop 3 carries(%a : tensor<8x8xf32>) -> tensor<8x8xf32> {
    ^bb1(%i: tensor<i64>, %z: tensor<8x8xf32>):
      %t = op.transpose %z by [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
      %u = op.slice %t from [7, 0] to [-9, 8] by [-1, 1] : tensor<8x8xf32> -> tensor<8x8xf32>
      op.yield %u : tensor<8x8xf32>
    }
    op.yield %r : tensor<8x8xf32>
  } else {
  ^bb0(%b: tensor<8x8xf32>):
    op.yield %b : tensor<8x8xf32>
  }
  job.output "y", %y : tensor<8x8xf32>
}

// 100 * 128 are too many, though none of them is a sum or a product.

// CHECK-LABEL: job.job @long
// CHECK:       op.if %c
// CHECK:       op.loop 100
// CHECK-NOT:   op.where
job.job @long placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x8xf32>
  %c = job.input "c" : tensor<i1>
  %y = op.if %c reads(%x : tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<8x8xf32>):
    %r = op.loop 100 carries(%a : tensor<8x8xf32>) -> tensor<8x8xf32> {
    ^bb1(%i: tensor<i64>, %z: tensor<8x8xf32>):
      %t = op.transpose %z by [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
      %u = op.slice %t from [7, 0] to [-9, 8] by [-1, 1] : tensor<8x8xf32> -> tensor<8x8xf32>
      op.yield %u : tensor<8x8xf32>
    }
    op.yield %r : tensor<8x8xf32>
  } else {
  ^bb0(%b: tensor<8x8xf32>):
    op.yield %b : tensor<8x8xf32>
  }
  job.output "y", %y : tensor<8x8xf32>
}
