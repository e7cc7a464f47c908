// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// CHECK: s = #launch.rows<warp, threads 32, width 4, kept>
"test.op"() {s = #launch.rows<warp, threads 32, width 4, kept>} : () -> ()

// CHECK: s = #launch.rows<block, threads 256, width 1>
"test.op"() {s = #launch.rows<block, threads 256, width 1>} : () -> ()

// CHECK: s = #launch.rows<grid, threads 1024, width 32>
"test.op"() {s = #launch.rows<grid, threads 1024, width 32>} : () -> ()

// CHECK: s = #launch.vector_loops<lines>
"test.op"() {s = #launch.vector_loops<lines>} : () -> ()

// CHECK: s = #launch.vector_loops<columns>
"test.op"() {s = #launch.vector_loops<columns>} : () -> ()

// CHECK: s = #launch.vector_loops<lines, fixed [0, 2]>
"test.op"() {s = #launch.vector_loops<lines, fixed [0, 2]>} : () -> ()
// CHECK: s = #launch.map<fixed [1]>
"test.op"() {s = #launch.map<fixed [1]>} : () -> ()
