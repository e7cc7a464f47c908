// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

#q = affine_map<(s, r, k, t, c) -> (s, r, t)>
#k = affine_map<(s, r, k, t, c) -> (s, k, t)>
#v = affine_map<(s, r, k, t, c) -> (s, k, c)>
#o = affine_map<(s, r, k, t, c) -> (s, r, c)>
#l = affine_map<(s, r, k, t, c) -> (s, r)>
#m = affine_map<(s, r, k, t, c) -> (r, k)>

// Of halves, numbers of rows and gradients are f32, as scores are.
launch.kernel @k target "cpu" (%q: memref<3x8x4xf16>, %k: memref<3x6x4xf16>, %v: memref<3x6x5xf16>, %g: memref<3x8x5xf16>, %l: memref<3x8xf32>, %d: memref<3x8xf32>, %m: memref<8x6xf16>, %x: memref<3x8x4xf32>, %y: memref<3x6x4xf32>, %z: memref<3x6x5xf32>) {
  // CHECK:      kernel.attention_gradient causal 0 indexing_maps = [{{.*}}] ins(%q, %k, %v, %g : memref<3x8x4xf16>, memref<3x6x4xf16>, memref<3x6x5xf16>, memref<3x8x5xf16>) rows(%l, %d : memref<3x8xf32>, memref<3x8xf32>) score(%m : memref<8x6xf16>) outs(%x, %y, %z : memref<3x8x4xf32>, memref<3x6x4xf32>, memref<3x6x5xf32>) attributes {acme.note} {
  // CHECK-NEXT: ^bb0(%[[S:.+]]: f32, %[[A:.+]]: f16):
  // CHECK:        kernel.yield %[[C:.+]], %[[O:.+]] : f32, f32
  kernel.attention_gradient causal 0 indexing_maps = [#q, #k, #v, #o, #l, #l, #m, #q, #k, #v] ins(%q, %k, %v, %g : memref<3x8x4xf16>, memref<3x6x4xf16>, memref<3x6x5xf16>, memref<3x8x5xf16>) rows(%l, %d : memref<3x8xf32>, memref<3x8xf32>) score(%m : memref<8x6xf16>) outs(%x, %y, %z : memref<3x8x4xf32>, memref<3x6x4xf32>, memref<3x6x5xf32>) attributes {acme.note} {
  ^bb0(%s: f32, %a: f16):
    %b = arith.extf %a : f16 to f32
    %c = arith.addf %s, %b : f32
    %o = arith.constant 1.0 : f32
    kernel.yield %c, %o : f32, f32
  }
}

#h = affine_map<(s, r, k, t, c) -> (k, t)>
#w = affine_map<(s, r, k, t, c) -> (k, c)>

// Keys of all stacks have one gradient, which is added up over them.
launch.kernel @groups target "cpu" (%q: memref<3x8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %g: memref<3x8x5xf32>, %l: memref<3x8xf32>, %x: memref<3x8x4xf32>, %y: memref<6x4xf32>, %z: memref<6x5xf32>) {
  // CHECK: kernel.attention_gradient {{.*}} outs(%x, %y, %z : memref<3x8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) {
  kernel.attention_gradient indexing_maps = [#q, #h, #w, #o, #l, #l, #q, #h, #w] ins(%q, %k, %v, %g : memref<3x8x4xf32>, memref<6x4xf32>, memref<6x5xf32>, memref<3x8x5xf32>) rows(%l, %l : memref<3x8xf32>, memref<3x8xf32>) outs(%x, %y, %z : memref<3x8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s, %s : f32, f32
  }
}
