// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

#q = affine_map<(s, r, k, t, c) -> (s, r, t)>
#k = affine_map<(s, r, k, t, c) -> (s, k, t)>
#v = affine_map<(s, r, k, t, c) -> (s, k, c)>
#m = affine_map<(s, r, k, t, c) -> (r, k)>
#o = affine_map<(s, r, k, t, c) -> (s, r, c)>

launch.kernel @k target "cpu" (%q: memref<3x8x4xf16>, %k: memref<3x6x4xf16>, %v: memref<3x6x5xf16>, %m: memref<8x6xf16>, %o: memref<3x8x5xf16>) {
  // The sum of products of halves is f32, as what is made of it.
  // CHECK:      kernel.attention causal 0 indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>] ins(%q, %k, %v : memref<3x8x4xf16>, memref<3x6x4xf16>, memref<3x6x5xf16>) score(%m : memref<8x6xf16>) outs(%o : memref<3x8x5xf16>) attributes {acme.note} {
  // CHECK-NEXT: ^bb0(%[[S:.+]]: f32, %[[A:.+]]: f16):
  // CHECK-NEXT:   %[[B:.+]] = arith.extf %[[A]] : f16 to f32
  // CHECK-NEXT:   %[[C:.+]] = arith.addf %[[S]], %[[B]] : f32
  // CHECK-NEXT:   kernel.yield %[[C]] : f32
  // CHECK-NEXT: }
  kernel.attention causal 0 indexing_maps = [#q, #k, #v, #m, #o] ins(%q, %k, %v : memref<3x8x4xf16>, memref<3x6x4xf16>, memref<3x6x5xf16>) score(%m : memref<8x6xf16>) outs(%o : memref<3x8x5xf16>) attributes {acme.note} {
  ^bb0(%s: f32, %a: f16):
    %b = arith.extf %a : f16 to f32
    %c = arith.addf %s, %b : f32
    kernel.yield %c : f32
  }
}

#l = affine_map<(s, r, k, t, c) -> (s, r)>

launch.kernel @sums target "cpu" (%q: memref<3x8x4xf32>, %k: memref<3x6x4xf32>, %v: memref<3x6x5xf32>, %o: memref<3x8x5xf32>, %l: memref<3x8xf32>) {
  // The logarithms of the sums of rows are a second result.
  // CHECK:      kernel.attention {{.*}} outs(%o : memref<3x8x5xf32>) lse(%l : memref<3x8xf32>) {
  kernel.attention indexing_maps = [#q, #k, #v, #o, #l] ins(%q, %k, %v : memref<3x8x4xf32>, memref<3x6x4xf32>, memref<3x6x5xf32>) outs(%o : memref<3x8x5xf32>) lse(%l : memref<3x8xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}
