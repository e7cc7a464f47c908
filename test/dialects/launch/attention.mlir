// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// CHECK: s = #launch.attention<columns, tile [6, 4, 16], mix [4, 3], keys 126>
"test.op"() {s = #launch.attention<columns, tile [6, 4, 16], mix [4, 3], keys 126>} : () -> ()

// CHECK: s = #launch.attention<rows, tile [8, 1, 16], mix [1, 4], keys 2048>
"test.op"() {s = #launch.attention<rows, tile [8, 1, 16], mix [1, 4], keys 2048>} : () -> ()

// CHECK: s = #launch.attention_gradient<tile [6, 2, 8], mix [6, 2], queries 48, keys 66>
"test.op"() {s = #launch.attention_gradient<tile [6, 2, 8], mix [6, 2], queries 48, keys 66>} : () -> ()

// CHECK: s = #launch.gradient_tiles<queries 32, keys 16>
"test.op"() {s = #launch.gradient_tiles<queries 32, keys 16>} : () -> ()
