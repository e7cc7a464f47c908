// RUN: penstock-opt %s -p 'launch-schedule-attention{vector-bytes=64}' | filecheck %s --match-full-lines

// 128 queries are computed as blocks: scores of 6 keys and 4 vectors of 16 queries in
// registers, for 132 keys at a time.

// EXAMPLE-BEFORE
launch.kernel @attention_0 target "cpu" (%q: memref<128x64xf32>, %k: memref<128x64xf32>, %v: memref<128x64xf32>, %o: memref<128x64xf32>) {
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<128x64xf32>, memref<128x64xf32>, memref<128x64xf32>) outs(%o : memref<128x64xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}
// EXAMPLE-AFTER
// CHECK:      launch.kernel @attention_0 target "cpu" ({{.*}}) {
// CHECK-NEXT:   kernel.attention indexing_maps = [{{.*}}] ins(%q, %k, %v : {{.*}}) outs(%o : memref<128x64xf32>) attributes {schedule = #launch.attention<columns, tile [6, 4, 16], mix [6, 4], keys 132>} {
// CHECK-NEXT:   ^bb0(%s: f32):
// CHECK-NEXT:     kernel.yield %s : f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
// EXAMPLE-END
