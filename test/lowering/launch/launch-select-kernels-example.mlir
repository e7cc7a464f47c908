// RUN: python %S/../Inputs/plant_times.py %s %t.db 'matmul: rules' 900 'matmul: tiles <outer, tile [13, 2, 16], block [78, 64], folds [1, 0]>' 500
// RUN: penstock-opt %s -p 'launch-select-kernels{vector-bytes=64 database="%t.db"}' | filecheck %s --match-full-lines

// Of what was measured for this matmul, one way to tile it took 500 ns, and the rules of
// `launch-schedule-contractions` 900: it is taken, and the kernel says so.

!m = memref<64x64xf32>

// EXAMPLE-BEFORE
launch.kernel @matmul target "cpu" (%a: !m, %b: !m, %o: !m) attributes {
  cost = {bytes = 49152, flops = 524288, op = "op.matmul"}
} {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : !m)
  linalg.matmul ins(%a, %b : !m, !m) outs(%o : !m)
}
// EXAMPLE-AFTER
// CHECK:      launch.kernel @matmul target "cpu" ({{.*}}) attributes {{{.*}}, selected = "tiles <outer, tile [13, 2, 16], block [78, 64], folds [1, 0]>: 500 ns measured, rules 900 ns"} {
// CHECK-NEXT:   %z = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   linalg.fill ins(%z : f32) outs(%o : memref<64x64xf32>)
// CHECK-NEXT:   linalg.matmul {schedule = #launch.contraction<outer, tile [13, 2, 16], block [78, 64], folds [1, 0]>} ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>)
// CHECK-NEXT: }
// EXAMPLE-END
