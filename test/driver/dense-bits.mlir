// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Hexadecimal elements are the bits of floats, as they are printed, but whole numbers
// in a tensor of integers.

// CHECK-LABEL: func.func @bits
func.func @bits() {
  // CHECK-NEXT: arith.constant dense<[0xff800000, 1.000000e+00]> : tensor<2xf32>
  %a = arith.constant dense<[0xFF800000, 0x3F800000]> : tensor<2xf32>
  // CHECK-NEXT: arith.constant dense<255> : tensor<2xi32>
  %b = arith.constant dense<0xFF> : tensor<2xi32>
  return
}
