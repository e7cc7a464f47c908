// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// CHECK: s = #launch.queries<tiles, queries 64, keys 32>
"test.op"() {s = #launch.queries<tiles, queries 64, keys 32>} : () -> ()

// CHECK: s = #launch.queries<warps, queries 64, keys 64>
"test.op"() {s = #launch.queries<warps, queries 64, keys 64>} : () -> ()

// CHECK: s = #launch.queries<rows, queries 1, keys 4>
"test.op"() {s = #launch.queries<rows, queries 1, keys 4>} : () -> ()
