// Constants of more elements than are asked for are left out of what is printed.
// RUN: penstock-opt %s --mlir-elide-elementsattrs-if-larger=3 | filecheck %s
// RUN: penstock-opt %s -t mlir{elide-larger=3} | filecheck %s
// RUN: penstock-opt %s -p cse --elide-elementsattrs-if-larger=3 --print-ir-after-all 2>&1 -o %t.out | filecheck %s

// Text that is read back is not shortened.
// RUN: penstock-opt %s --elide-elementsattrs-if-larger=0 --verify-roundtrip --generate-reproducer=%t.mlir -o %t.out
// RUN: filecheck %s --check-prefix=WHOLE --input-file %t.mlir

// CHECK:      "test.op"() {a = dense<[1, 2, 3]> : tensor<3xi32>}
// CHECK-NEXT: "test.op"() {b = dense_resource<__elided__> : tensor<4xi32>}
// CHECK-NEXT: "test.op"() {c = dense<7> : tensor<1000xi32>}
// WHOLE:      dense<[1, 2, 3, 4]>
"test.op"() {a = dense<[1, 2, 3]> : tensor<3xi32>} : () -> ()
"test.op"() {b = dense<[1, 2, 3, 4]> : tensor<4xi32>} : () -> ()
"test.op"() {c = dense<7> : tensor<1000xi32>} : () -> ()
