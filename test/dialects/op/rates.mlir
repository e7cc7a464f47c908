// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

job.job @rates placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x8xf32>
  // CHECK: op.pack %x by 4 : tensor<2x8xf32> -> tensor<8x8xf32>
  %b = op.pack %x by 4 : tensor<2x8xf32> -> tensor<8x8xf32>
  // CHECK: op.unpack %b by 4 : tensor<8x8xf32> -> tensor<2x8xf32>
  %u = op.unpack %b by 4 : tensor<8x8xf32> -> tensor<2x8xf32>
  // CHECK: op.acc %u every 4 : tensor<2x8xf32> -> tensor<2x8xf32>
  %s = op.acc %u every 4 : tensor<2x8xf32> -> tensor<2x8xf32>
  // CHECK: op.repeat %s times 4 : tensor<2x8xf32> -> tensor<2x8xf32>
  %r = op.repeat %s times 4 : tensor<2x8xf32> -> tensor<2x8xf32>
  // CHECK: op.last %r of 4 : tensor<2x8xf32> -> tensor<2x8xf32>
  %l = op.last %r of 4 : tensor<2x8xf32> -> tensor<2x8xf32>
  job.output "l", %l : tensor<2x8xf32>
}
