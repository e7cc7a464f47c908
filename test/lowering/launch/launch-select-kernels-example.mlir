// RUN: python %S/../Inputs/plant_times.py %s %t.db 'matmul: rules' 900 'matmul: tiles <outer, tile [6, 4, 16], block [66, 64]>' 500
// RUN: penstock-opt %s -p 'launch-select-kernels{vector-bytes=64 database="%t.db"}' | filecheck %s --match-full-lines

// Of what was measured for this matmul, one way to tile it took 500 ns, and the rules of
// `launch-schedule-contractions` 900: it is taken, and the kernel says so.

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#o = affine_map<(m, n, k) -> (m, n)>
!m = memref<64x64xf32>

// EXAMPLE-BEFORE
launch.kernel @matmul target "cpu" (%a: !m, %b: !m, %o: !m) attributes {
  cost = {bytes = 49152, flops = 524288, op = "op.matmul"}
} {
  kernel.contract indexing_maps = [#a, #b, #o] ins(%a, %b : !m, !m) outs(%o : !m) {
  ^bb0(%s: f32):
    %n = arith.negf %s : f32
    kernel.yield %n : f32
  }
}
// EXAMPLE-AFTER
// CHECK:      launch.kernel @matmul target "cpu" ({{.*}}) attributes {{{.*}}, selected = "tiles <outer, tile [6, 4, 16], block [66, 64]>: 500 ns measured, rules 900 ns"} {
// CHECK-NEXT:   kernel.contract indexing_maps = [{{.*}}] ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>) attributes {schedule = #launch.contraction<outer, tile [6, 4, 16], block [66, 64]>} {
// CHECK-NEXT:   ^bb0(%s: f32):
// CHECK-NEXT:     %n = arith.negf %s : f32
// CHECK-NEXT:     kernel.yield %n : f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
// EXAMPLE-END
