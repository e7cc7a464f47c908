// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// What is not said is not printed: nothing is folded.
// CHECK: s = #launch.tiles<block [128, 128, 8], thread [8, 8]>
"test.op"() {s = #launch.tiles<block [128, 128, 8], thread [8, 8]>} : () -> ()

// CHECK: s = #launch.tiles<block [16, 64, 16], thread [2, 4]>
"test.op"() {s = #launch.tiles<block [16, 64, 16], thread [2, 4]>} : () -> ()

// CHECK: s = #launch.tiles<block [128, 128, 32], warp [64, 32], stages 4>
"test.op"() {s = #launch.tiles<block [128, 128, 32], warp [64, 32], stages 4>} : () -> ()

// CHECK: s = #launch.tiles<block [16, 64, 32], warp [16, 16], stages 2>
"test.op"() {s = #launch.tiles<block [16, 64, 32], warp [16, 16], stages 2>} : () -> ()
