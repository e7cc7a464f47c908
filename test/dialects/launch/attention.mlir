// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// CHECK: s = #launch.attention<columns, tile [6, 4, 16], mix [4, 3], keys 126>
"test.op"() {s = #launch.attention<columns, tile [6, 4, 16], mix [4, 3], keys 126>} : () -> ()

// CHECK: s = #launch.attention<rows, tile [8, 1, 16], mix [1, 4], keys 2048>
"test.op"() {s = #launch.attention<rows, tile [8, 1, 16], mix [1, 4], keys 2048>} : () -> ()
