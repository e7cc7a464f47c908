// RUN: penstock-opt %s --allow-unregistered-dialect | penstock-opt --allow-unregistered-dialect | filecheck %s
// RUN: penstock-opt %s --allow-unregistered-dialect --print-op-generic | penstock-opt --allow-unregistered-dialect | filecheck %s

// CHECK-LABEL: launch.kernel @all
// CHECK:       schedule = #launch.contraction<outer, tile [6, 4, 16], block [12, 8], packed, prefetch 2>
launch.kernel @all target "cpu" (%a: memref<8x8xf32>, %b: memref<8x8xf32>, %o: memref<8x8xf32>) {
  linalg.matmul {schedule = #launch.contraction<outer, tile [6, 4, 16], block [12, 8], packed, prefetch 2>} ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)
}

// What is usual is not printed.
// CHECK-LABEL: launch.kernel @least
// CHECK:       schedule = #launch.contraction<inner, tile [1, 8, 16], block [1, 8]>
launch.kernel @least target "cpu" (%a: memref<8x8xf32>, %b: memref<8x8xf32>, %o: memref<8x8xf32>) {
  linalg.matmul {schedule = #launch.contraction<inner, tile [1, 8, 16], block [1, 8], prefetch 0>} ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)
}

// Operands in panels are those of arguments that say so.
// CHECK-LABEL: launch.kernel @panels target "cpu" ({{.*}}) attributes {panels = [#launch.panels<[1, 8, 8], axis 1, width 6, depth 4>, unit, unit]} {
// CHECK:       schedule = #launch.contraction<outer, tile [6, 4, 16], block [12, 4], packed, edge 1, panels a>
launch.kernel @panels target "cpu" (%a: memref<8x8xf32>, %b: memref<8x8xf32>, %o: memref<8x8xf32>) attributes {panels = [#launch.panels<[1, 8, 8], axis 1, width 6, depth 4>, unit, unit]} {
  linalg.matmul {schedule = #launch.contraction<outer, tile [6, 4, 16], block [12, 4], packed, edge 1, panels a>} ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)
}

// CHECK: "test.op"() {s = #launch.contraction<upright, tile [14, 2, 16], block [28, 9], panels a>}
"test.op"() {s = #launch.contraction<upright, tile [14, 2, 16], block [28, 9], panels a>} : () -> ()

// CHECK: "test.op"() {s = #launch.contraction<outer, tile [8, 3, 16], block [192, 160], reuse 16, panels b>}
"test.op"() {s = #launch.contraction<outer, tile [8, 3, 16], block [192, 160], reuse 16, panels b>} : () -> ()

// CHECK: "test.op"() {s = #launch.contraction<outer, tile [9, 2, 16], block [9, 768], group 4, packed, reuse 9>, p = #launch.panels<[1, 8, 4], axis 2, width 3, depth 8, group 4>}
"test.op"() {s = #launch.contraction<outer, tile [9, 2, 16], block [9, 768], group 4, packed, reuse 9>, p = #launch.panels<[1, 8, 4], axis 2, width 3, depth 8, group 4>} : () -> ()

// CHECK: "test.op"() {s = #launch.contraction<outer, tile [32, 2, 16], block [64, 192], matrices, reuse 4, panels b>}
"test.op"() {s = #launch.contraction<outer, tile [32, 2, 16], block [64, 192], matrices, reuse 4, panels b>} : () -> ()

// CHECK: launch.variable @w in @c at 0 init <ones> panels <[1, 8, 4], axis 1, width 4, depth 4> : memref<8x4xf32>
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> panels <[1, 8, 4], axis 1, width 4, depth 4> : memref<8x4xf32>
}

// CHECK-LABEL: launch.program @winograd
// CHECK:         launch.variable @w in @c at 0 init <ones> winograd [2, 1, 3, 3] : memref<36x2x1xf32>
launch.program @winograd rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.variable @w in @c at 0 init <ones> winograd [2, 1, 3, 3] : memref<36x2x1xf32>
}

// CHECK: "test.op"() {s = #launch.transform<lanes 16>}
"test.op"() {s = #launch.transform<lanes 16>} : () -> ()

// CHECK: "test.op"() {s = #launch.windows<lanes 16, lines 8>}
"test.op"() {s = #launch.windows<lanes 16, lines 8>} : () -> ()

// CHECK: "test.op"() {s = #launch.windows<lanes 16, lines 1, vectors 4, looped>}
"test.op"() {s = #launch.windows<lanes 16, lines 1, looped, vectors 4>} : () -> ()
