// RUN: penstock-opt %s -p 'convert-kernel-to-loops{only-unscheduled=true}' | filecheck %s
// RUN: penstock-opt %s -p 'convert-kernel-to-loops{only="kernel.attention"}' | filecheck %s --check-prefix=ALL
// RUN: not penstock-opt %s -p 'convert-kernel-to-loops{only="kernel.padded"}' 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not penstock-opt %s -p 'convert-kernel-to-loops{only="acme.row"}' 2>&1 | filecheck %s --check-prefix=UNKNOWN

// OTHER: convert-kernel-to-loops: kernel.padded is no structured op of a kernel
// UNKNOWN: convert-kernel-to-loops: acme.row is no structured op of a kernel

!m = memref<8x4xf32>
#q = affine_map<(r, k, t, c) -> (r, t)>
#k = affine_map<(r, k, t, c) -> (k, t)>
#v = affine_map<(r, k, t, c) -> (k, c)>
#o = affine_map<(r, k, t, c) -> (r, c)>

// A stage that has a schedule stays, one without a reason is not listed.
// CHECK-LABEL: launch.kernel @scheduled
// CHECK-SAME:  ({{[^)]*}}) {
// CHECK:       kernel.attention
// CHECK:       "scf.parallel"
// ALL-LABEL: launch.kernel @scheduled
// ALL-NOT:   kernel.attention
// ALL:       launch.kernel @own
launch.kernel @scheduled target "cpu" (%q: !m, %o: !m, %p: !m) {
  kernel.attention indexing_maps = [#q, #k, #v, #o] ins(%q, %q, %q : !m, !m, !m) outs(%o : !m) attributes {schedule = #launch.attention<rows, tile [4, 1, 16], mix [1, 4], keys 64>} {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
  kernel.attention indexing_maps = [#q, #k, #v, #o] ins(%q, %q, %q : !m, !m, !m) outs(%p : !m) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// The body of a kernel with a source of its own is its meaning only.
// CHECK-LABEL: launch.kernel @own
// CHECK:       kernel.attention
launch.kernel @own target "cpu" (%q: !m, %o: !m) attributes {source = "text"} {
  kernel.attention indexing_maps = [#q, #k, #v, #o] ins(%q, %q, %q : !m, !m, !m) outs(%o : !m) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// Sums of halves have 32 bits, and are in a register until they are finished: a result
// with all their bits holds them.
// CHECK-LABEL: launch.kernel @sums
// CHECK:         "scf.parallel"
// CHECK:           scf.for {{.*}} iter_args({{.*}}) -> (f32)
// CHECK:           arith.truncf
// CHECK-NEXT:      memref.store
// CHECK-LABEL: launch.kernel @exact
// CHECK:         linalg.generic
!h = memref<8x8xf16>
!s = memref<8x8xf32>
#l = affine_map<(r, c, t) -> (r, t)>
#m = affine_map<(r, c, t) -> (t, c)>
#n = affine_map<(r, c, t) -> (r, c)>
launch.kernel @sums target "cuda" (%a: !h, %o: !h) {
  kernel.contract indexing_maps = [#l, #m, #n] ins(%a, %a : !h, !h) outs(%o : !h)
}
launch.kernel @exact target "cuda" (%a: !h, %o: !s) {
  kernel.contract indexing_maps = [#l, #m, #n] ins(%a, %a : !h, !h) outs(%o : !s)
}
