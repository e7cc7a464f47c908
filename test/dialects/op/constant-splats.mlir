// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Elements with the same bits are kept once: 4 GiB of ones take no memory.
// CHECK-LABEL: job.job @kept_once
job.job @kept_once placement <cpu, [0:0]> {
  // CHECK-NEXT: op.constant dense<1.000000e+00> : tensor<1073741824xf32>
  %a = op.constant dense<1.0> : tensor<1073741824xf32>
  %x = job.input "x" : tensor<1073741824xf32>
  %y = op.add %x, %a : tensor<1073741824xf32>, tensor<1073741824xf32> -> tensor<1073741824xf32>
  job.output "y", %y : tensor<1073741824xf32>
}

// What is written is read back, bit by bit.
// CHECK-LABEL: job.job @bits
job.job @bits placement <cpu, [0:0]> {
  // CHECK: op.constant dense<-0.000000e+00> : tensor<1073741824xf32>
  %a = op.constant dense<-0.0> : tensor<1073741824xf32>
  // CHECK: op.constant dense<"0x0000C07F"> : tensor<1073741824xf32>
  %b = op.constant dense<"0x0000C07F"> : tensor<1073741824xf32>
  // CHECK: op.constant dense<true> : tensor<1073741824xi1>
  %c = op.constant dense<true> : tensor<1073741824xi1>
  // CHECK: op.constant dense<-1> : tensor<1073741824xi8>
  %d = op.constant dense<-1> : tensor<1073741824xi8>
  // CHECK: op.constant dense<255> : tensor<1073741824xui8>
  %e = op.constant dense<255> : tensor<1073741824xui8>
  // CHECK: op.constant dense<7> : tensor<1024x1048576xi32>
  %f = "op.constant"() <{value = dense<7> : tensor<1024x1048576xi32>}> : () -> tensor<1024x1048576xi32>
}

// Elements that are written one by one are the same constant as one for all.
// CHECK-LABEL: job.job @one_by_one
job.job @one_by_one placement <cpu, [0:0]> {
  // CHECK-NEXT: op.constant dense<1> : tensor<3xi64>
  %a = op.constant dense<[1, 1, 1]> : tensor<3xi64>
  // CHECK-NEXT: op.constant dense<> : tensor<0xi64>
  %c = op.constant dense<1> : tensor<0xi64>
  // CHECK-NEXT: op.constant dense<1> : tensor<i64>
  %d = op.constant dense<1> : tensor<i64>
}
