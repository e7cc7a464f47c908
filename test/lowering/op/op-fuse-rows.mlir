// RUN: penstock-opt %s -p op-fuse-rows | filecheck %s

!x = tensor<4x8xf32>
!g = tensor<8xf32>

// What computes the rows and what follows is computed with them, where the last op was.
// CHECK-LABEL: job.job @around
job.job @around placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %r = job.input "r" : !x
  %g = job.input "g" : !g
  // CHECK:      %y = op.fused %x, %r, %g : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32> {
  // CHECK-NEXT: ^bb0(%[[X:.+]]: tensor<4x8xf32>, %[[R:.+]]: tensor<4x8xf32>, %[[G:.+]]: tensor<8xf32>):
  // CHECK-NEXT:   %[[S:.+]] = op.add %[[X]], %[[R]]
  // CHECK-NEXT:   %[[N:.+]] = op.layer_norm %[[S]], %[[G]]
  // CHECK-NEXT:   %[[Y:.+]] = op.relu %[[N]]
  // CHECK-NEXT:   op.yield %[[Y]] : tensor<4x8xf32>
  // CHECK-NEXT: }
  // CHECK-NEXT: job.output "y", %y
  %s = op.add %x, %r : !x, !x -> !x
  %n = op.layer_norm %s, %g axis 1 : !x, !g -> !x
  %y = op.relu %n : !x -> !x
  job.output "y", %y : !x
}

// What others read as well is a result, which ops that follow may read inside, too.
// CHECK-LABEL: job.job @kept
job.job @kept placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  // CHECK:      %y, %s = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4x8xf32> {
  // CHECK:        %[[S:.+]] = op.exp
  // CHECK-NEXT:   %[[N:.+]] = op.softmax %[[S]]
  // CHECK-NEXT:   %[[Y:.+]] = op.mul %[[N]], %[[S]]
  // CHECK-NEXT:   op.yield %[[Y]], %[[S]]
  // CHECK:      job.output "y", %y
  // CHECK-NEXT: job.output "s", %s
  %s = op.exp %x : !x -> !x
  %n = op.softmax %s : !x -> !x
  %y = op.mul %n, %s : !x, !x -> !x
  job.output "y", %y : !x
  job.output "s", %s : !x
}

// Not if others read it before.
// CHECK-LABEL: job.job @before
job.job @before placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  // CHECK:      op.exp
  // CHECK-NEXT: op.relu
  // CHECK-NEXT: op.softmax
  %s = op.exp %x : !x -> !x
  %t = op.relu %s : !x -> !x
  %n = op.softmax %s : !x -> !x
  job.output "n", %n : !x
  job.output "t", %t : !x
}

// Nor of other places and lines, nor what asks for slots, nor rows of another type.
// CHECK-LABEL: job.job @declined
// CHECK-NOT: op.fused
job.job @declined placement <cpu, [0:0-1]> {
  %x = job.input "x" : !x
  %g = job.input "g" : !g
  %w = op.add %g, %g : !g, !g -> !g
  %v = op.softmax %w : !g -> !g
  %c = op.relu %x : !x -> !x
  %d = op.softmax %c axis 0 : !x -> !x
  %e = op.relu %x {slots = 2 : i64} : !x -> !x
  %f = op.softmax %e : !x -> !x
  %h = op.relu %x {placement = #job.placement<cpu, [0:1]>} : !x -> !x
  %i = op.log_softmax %h {placement = #job.placement<cpu, [0:0]>} : !x -> !x
  %j = op.cast %i to f64 : !x -> tensor<4x8xf64>
  job.output "v", %v : !g
  job.output "d", %d : !x
  job.output "f", %f : !x
  job.output "j", %j : tensor<4x8xf64>
}

// Several ops may use rows that a group makes, which are a result if others do.
// CHECK-LABEL: job.job @shared
job.job @shared placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  // CHECK:      %z, %n, %y = op.fused %x
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT:   %[[N:.+]] = op.softmax
  // CHECK-NEXT:   %[[Y:.+]] = op.relu %[[N]]
  // CHECK-NEXT:   %[[Z:.+]] = op.exp %[[N]]
  // CHECK-NEXT:   op.yield %[[Z]], %[[N]], %[[Y]]
  %n = op.softmax %x : !x -> !x
  %y = op.relu %n : !x -> !x
  %z = op.exp %n : !x -> !x
  job.output "n", %n : !x
  job.output "y", %y : !x
  job.output "z", %z : !x
}

// Ops on rows that read what is made of the rows before are computed with these.
// CHECK-LABEL: job.job @several
job.job @several placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %r = job.input "r" : !x
  %g = job.input "g" : !g
  // CHECK:      %y = op.fused %x, %g, %r : {{.*}} -> tensor<4x8xf32> {
  // CHECK:        %[[N:.+]] = op.layer_norm
  // CHECK-NEXT:   %[[S:.+]] = op.add %[[N]]
  // CHECK-NEXT:   %[[M:.+]] = op.rms_norm %[[S]]
  // CHECK-NEXT:   %[[T:.+]] = op.softmax %[[M]]
  // CHECK-NEXT:   %[[Y:.+]] = op.relu %[[T]]
  // CHECK-NEXT:   op.yield %[[Y]]
  // CHECK:      job.output "y", %y
  %n = op.layer_norm %x, %g axis 1 : !x, !g -> !x
  %s = op.add %n, %r : !x, !x -> !x
  %m = op.rms_norm %s, %g axis 1 : !x, !g -> !x
  %t = op.softmax %m : !x -> !x
  %y = op.relu %t : !x -> !x
  job.output "y", %y : !x
}

// What they read may have other users, also one behind it.
// CHECK-LABEL: job.job @several_kept
job.job @several_kept placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %r = job.input "r" : !x
  %g = job.input "g" : !g
  // CHECK:      %y, %s = op.fused %x, %g, %r
  // CHECK:        op.yield %{{.+}}, %{{.+}} : tensor<4x8xf32>, tensor<4x8xf32>
  // CHECK:      %q, %p = op.fused %x, %g
  // CHECK:        %[[P:.+]] = op.rms_norm
  // CHECK-NEXT:   %[[O:.+]] = op.softmax %[[P]]
  // CHECK-NEXT:   %[[Q:.+]] = op.mul %[[O]], %[[P]]
  // CHECK-NEXT:   op.yield %[[Q]], %[[P]]
  %n = op.rms_norm %x, %g axis 1 : !x, !g -> !x
  %s = op.add %n, %r : !x, !x -> !x
  %m = op.rms_norm %s, %g axis 1 : !x, !g -> !x
  %y = op.mul %m, %s : !x, !x -> !x
  %p = op.rms_norm %x, %g axis 1 : !x, !g -> !x
  %o = op.softmax %p : !x -> !x
  %q = op.mul %o, %p : !x, !x -> !x
  job.output "y", %y : !x
  job.output "s", %s : !x
  job.output "p", %p : !x
  job.output "q", %q : !x
}

// Two ops on rows stay apart, and the second says why, if what is between them is read
// before the second, or a parameter of it.
// CHECK-LABEL: job.job @apart
job.job @apart placement <cpu, [0:0-1]> {
  %x = job.input "x" : !x
  %v = job.input "v" : !g
  %n = op.softmax %x : !x -> !x
  %e = op.transpose %n by [1, 0] : !x -> tensor<8x4xf32>
  // CHECK: op.softmax %n {no_rows = "order: others read what op.softmax makes before"}
  %a = op.softmax %n : !x -> !x
  // CHECK: op.fused {{.*}}no_rows = "place: op.softmax runs in another place"}
  %p = op.softmax %x : !x -> !x
  %b = op.log_softmax %p {placement = #job.placement<cpu, [0:1]>} : !x -> !x
  %c = op.relu %b {placement = #job.placement<cpu, [0:1]>} : !x -> !x
  // CHECK: op.softmax %{{.*}} {no_rows = "slots: op.softmax asks for them"}
  %q = op.softmax %x {slots = 2 : i64} : !x -> !x
  %d = op.softmax %q : !x -> !x
  job.output "e", %e : tensor<8x4xf32>
  job.output "a", %a : !x
  job.output "c", %c : !x
  job.output "d", %d : !x
}

// A reduction along the last axes combines elements that are computed on the way, be it of
// one element of others.
// CHECK-LABEL: job.job @combined
job.job @combined placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4x8xf32>
  %n = job.input "n" : tensor<1x1xf32>
  // CHECK:      %m = op.fused %x, %n : tensor<4x4x8xf32>, tensor<1x1xf32> -> tensor<4x4xf32> {
  // CHECK-NEXT: ^bb0(%[[X:.+]]: tensor<4x4x8xf32>, %[[N:.+]]: tensor<1x1xf32>):
  // CHECK-NEXT:   %[[D:.+]] = op.sub %[[X]], %[[N]]
  // CHECK-NEXT:   %[[M:.+]] = op.reduce_max %[[D]] axes [2]
  // CHECK-NEXT:   op.yield %[[M]] : tensor<4x4xf32>
  %d = op.sub %x, %n : tensor<4x4x8xf32>, tensor<1x1xf32> -> tensor<4x4x8xf32>
  %m = op.reduce_max %d axes [2] : tensor<4x4x8xf32> -> tensor<4x4xf32>
  job.output "m", %m : tensor<4x4xf32>
}

// Not of few rows, nor what asks for slots or runs in another place.
// CHECK-LABEL: job.job @not_combined
// CHECK-NOT:     op.fused
job.job @not_combined placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<16x8xf32>
  %a = op.exp %x : tensor<16x8xf32> -> tensor<16x8xf32>
  %b = op.reduce_sum %a axes [0] : tensor<16x8xf32> -> tensor<8xf32>
  job.output "b", %b : tensor<8xf32>
  %c = op.exp %x : tensor<16x8xf32> -> tensor<16x8xf32>
  %d = op.reduce_sum %c : tensor<16x8xf32> -> tensor<f32>
  job.output "d", %d : tensor<f32>
  %j = op.exp %x {slots = 2 : i64} : tensor<16x8xf32> -> tensor<16x8xf32>
  %k = op.reduce_sum %j axes [1] : tensor<16x8xf32> -> tensor<16xf32>
  job.output "k", %k : tensor<16xf32>
  %l = op.exp %x {placement = #job.placement<cpu, [0:1]>} : tensor<16x8xf32> -> tensor<16x8xf32>
  %m = op.reduce_sum %l axes [1] {placement = #job.placement<cpu, [0:0]>} : tensor<16x8xf32> -> tensor<16xf32>
  job.output "m", %m : tensor<16xf32>
}

// Ops follow reductions: a softmax of primitives is one group, in whatever form.
!s = tensor<16x32xf32>
!k = tensor<16x1xf32>
// CHECK-LABEL: job.job @quotients
job.job @quotients placement <cpu, [0:0]> {
  %x = job.input "x" : !s
  // CHECK:      %y = op.fused %x : tensor<16x32xf32> -> tensor<16x32xf32> {
  // CHECK:        op.reduce_sum
  // CHECK-NEXT:   %[[Y:.+]] = op.div
  // CHECK-NEXT:   op.yield %[[Y]]
  %m = op.reduce_max %x axes [1] keepdims : !s -> !k
  %d = op.sub %x, %m : !s, !k -> !s
  %e = op.exp %d : !s -> !s
  %t = op.reduce_sum %e axes [1] keepdims : !s -> !k
  %y = op.div %e, %t : !s, !k -> !s
  job.output "y", %y : !s
}

// So is a variance, whose mean and root others use as well.
// CHECK-LABEL: job.job @variance
job.job @variance placement <cpu, [0:0]> {
  %x = job.input "x" : !s
  // CHECK:      %r, %m = op.fused %x : tensor<16x32xf32> -> tensor<16x1xf32>, tensor<16x1xf32> {
  %m = op.reduce_mean %x axes [1] keepdims : !s -> !k
  %d = op.sub %x, %m : !s, !k -> !s
  %q = op.mul %d, %d : !s, !s -> !s
  %v = op.reduce_mean %q axes [1] keepdims : !s -> !k
  %r = op.sqrt %v : !k -> !k
  // CHECK-NEXT: ^bb0
  // CHECK:      job.output "m", %m
  job.output "m", %m : !k
  job.output "r", %r : !k
}

// Results without the axes that are gone lie as operands of their shape do, also where
// these could be rows.
!v = tensor<16xf32>
!p = tensor<16x16xf32>
// CHECK-LABEL: job.job @gone
job.job @gone placement <cpu, [0:0]> {
  %x = job.input "x" : !p
  %g = job.input "g" : !v
  // CHECK:      %n = op.fused %x, %g : tensor<16x16xf32>, tensor<16xf32> -> tensor<16xf32> {
  // CHECK:        op.sqrt
  // CHECK-NEXT:   op.mul
  // CHECK-NEXT:   op.yield
  // CHECK:      %y = op.add %x, %n
  %q = op.mul %x, %x : !p, !p -> !p
  %s = op.reduce_sum %q axes [1] : !p -> !v
  %r = op.sqrt %s : !v -> !v
  %n = op.mul %r, %g : !v, !v -> !v
  %y = op.add %x, %n : !p, !v -> !p
  job.output "y", %y : !p
}

// Folds of one op's rows that do not need each other are one group, with what makes rows.
// CHECK-LABEL: job.job @independent
job.job @independent placement <cuda, [0:0]> {
  %x = job.input "x" : !s
  %t = job.input "t" : !s
  // CHECK:      %b, %a = op.fused %t, %x : {{.*}} -> tensor<16xf32>, tensor<16xf32> {
  // CHECK:        op.reduce_sum
  // CHECK-NEXT:   %[[P:.+]] = op.mul
  // CHECK-NEXT:   op.reduce_sum %[[P]]
  %a = op.reduce_sum %t axes [1] : !s -> !v
  %p = op.mul %t, %x : !s, !s -> !s
  %b = op.reduce_sum %p axes [1] : !s -> !v
  job.output "a", %a : !v
  job.output "b", %b : !v
}

// A reduction along other axes takes what is before and what follows.
!i = tensor<2x16x4x4xf32>
!c = tensor<1x16x1x1xf32>
// CHECK-LABEL: job.job @statistics
job.job @statistics placement <cpu, [0:0]> {
  %x = job.input "x" : !i
  %y = job.input "y" : tensor<8x32xf32>
  // CHECK:      %z = op.fused %x
  // CHECK:        op.reduce_mean
  // CHECK:        op.reduce_mean
  // CHECK-NEXT:   op.sqrt
  // CHECK-NEXT:   op.mul
  // CHECK-NEXT:   op.yield
  // CHECK:      op.fused %y
  // CHECK:        op.exp
  // CHECK-NEXT:   op.reduce_sum
  // CHECK-NEXT:   op.neg
  %m = op.reduce_mean %x axes [0, 2, 3] keepdims : !i -> !c
  %d = op.sub %x, %m : !i, !c -> !i
  %q = op.mul %d, %d : !i, !i -> !i
  %v = op.reduce_mean %q axes [0, 2, 3] keepdims : !i -> !c
  %r = op.sqrt %v : !c -> !c
  %z = op.mul %d, %r : !i, !c -> !i
  %e = op.exp %y : tensor<8x32xf32> -> tensor<8x32xf32>
  %b = op.reduce_sum %e axes [0] : tensor<8x32xf32> -> tensor<32xf32>
  %n = op.neg %b : tensor<32xf32> -> tensor<32xf32>
  job.output "z", %z : !i
  job.output "n", %n : tensor<32xf32>
}

// A fold over points that lie apart is in its result until it is done, and no half so.
// CHECK-LABEL: job.job @halves
job.job @halves placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<32x64xf16>
  // CHECK:      %s = op.fused %x : tensor<32x64xf16> -> tensor<64xf32> {
  // CHECK:      %h = op.cast %s to f16
  // CHECK:      op.fused %{{.*}} : tensor<32x64xf16> -> tensor<32xf16> {
  %w = op.cast %x to f32 : tensor<32x64xf16> -> tensor<32x64xf32>
  %s = op.reduce_sum %w axes [0] : tensor<32x64xf32> -> tensor<64xf32>
  %h = op.cast %s to f16 : tensor<64xf32> -> tensor<64xf16>
  job.output "h", %h : tensor<64xf16>
  %v = op.cast %x to f32 : tensor<32x64xf16> -> tensor<32x64xf32>
  %t = op.reduce_sum %v axes [1] : tensor<32x64xf32> -> tensor<32xf32>
  %l = op.cast %t to f16 : tensor<32xf32> -> tensor<32xf16>
  job.output "l", %l : tensor<32xf16>
}

// A GPU has it in registers until it is rounded, but not for what follows that.
// CHECK-LABEL: job.job @halves_of_gpus
job.job @halves_of_gpus placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<32x64xf16>
  // CHECK:      %h = op.fused %x : tensor<32x64xf16> -> tensor<64xf16> {
  // CHECK:        op.reduce_sum
  // CHECK-NEXT:   op.cast
  // CHECK-NEXT:   op.yield
  // CHECK:      %n = op.neg %h
  %w = op.cast %x to f32 : tensor<32x64xf16> -> tensor<32x64xf32>
  %s = op.reduce_sum %w axes [0] : tensor<32x64xf32> -> tensor<64xf32>
  %h = op.cast %s to f16 : tensor<64xf32> -> tensor<64xf16>
  %n = op.neg %h : tensor<64xf16> -> tensor<64xf16>
  job.output "n", %n : tensor<64xf16>
}

// On a GPU ops on elements have more threads than the reductions of few rows, so that
// these leave them the rows that they make.
// CHECK-LABEL: job.job @of_gpus
job.job @of_gpus placement <cuda, [0:0]> {
  %x = job.input "x" : !i
  // CHECK:      %r, %m = op.fused %x
  // CHECK:        op.reduce_mean
  // CHECK-NEXT:   op.sub
  // CHECK-NEXT:   op.mul
  // CHECK-NEXT:   op.reduce_mean
  // CHECK-NEXT:   op.sqrt
  // CHECK-NEXT:   op.yield
  // CHECK:      %d2 = op.sub %x, %m
  // CHECK-NEXT: op.mul %d2, %r
  %m = op.reduce_mean %x axes [0, 2, 3] keepdims : !i -> !c
  %d = op.sub %x, %m : !i, !c -> !i
  %q = op.mul %d, %d : !i, !i -> !i
  %v = op.reduce_mean %q axes [0, 2, 3] keepdims : !i -> !c
  %r = op.sqrt %v : !c -> !c
  %d2 = op.sub %x, %m : !i, !c -> !i
  %z = op.mul %d2, %r : !i, !c -> !i
  job.output "z", %z : !i
}

// Folds that do not need each other are one kernel, with what makes rows for them alone.
// CHECK-LABEL: job.job @gradients_of_norms
job.job @gradients_of_norms placement <cuda, [0:0]> {
  %g = job.input "g" : !s
  %h = job.input "h" : !s
  // CHECK:      %e = op.exp %h
  // CHECK-NEXT: %b, %a = op.fused %g, %e
  // CHECK:        op.reduce_sum
  // CHECK-NEXT:   op.mul
  // CHECK-NEXT:   op.reduce_sum
  // CHECK-NEXT:   op.yield
  %e = op.exp %h : !s -> !s
  %a = op.reduce_sum %g axes [0] keepdims : !s -> tensor<1x32xf32>
  %p = op.mul %g, %e : !s, !s -> !s
  %b = op.reduce_sum %p axes [0] keepdims : !s -> tensor<1x32xf32>
  job.output "e", %e : !s
  job.output "a", %a : tensor<1x32xf32>
  job.output "b", %b : tensor<1x32xf32>
}

// What cannot join says why: reductions along other axes, or of rows of another type.
// Operands may have a part of the axes alone.
// CHECK-LABEL: job.job @reasons
job.job @reasons placement <cpu, [0:0]> {
  %x = job.input "x" : !p
  %i = job.input "i" : !i
  %l = job.input "l" : tensor<4x1xf32>
  %j = job.input "j" : tensor<16x16xi32>
  %n = op.softmax %x : !p -> !p
  // CHECK: op.reduce_sum %{{.*}} axes [0] {no_rows = "rows: those of op.softmax are others"}
  %a = op.reduce_sum %n axes [0] : !p -> !v
  %m = op.reduce_max %i axes [2, 3] keepdims : !i -> tensor<2x16x1x1xf32>
  %d = op.sub %i, %m : !i, tensor<2x16x1x1xf32> -> !i
  // CHECK: op.fused %i, %l
  // CHECK: op.reduce_max
  // CHECK: op.reduce_sum
  %k = op.mul %d, %l : !i, tensor<4x1xf32> -> !i
  %s = op.reduce_sum %k axes [2, 3] : !i -> tensor<2x16xf32>
  %e = op.exp %x : !p -> !p
  %f = op.reduce_max %e axes [1] keepdims : !p -> !k
  %u = op.cast %j to f32 : tensor<16x16xi32> -> !p
  // CHECK: op.cast
  // CHECK: op.fused
  %w = op.add %u, %f : !p, !k -> !p
  %q = op.reduce_sum %w axes [1] : !p -> !v
  job.output "a", %a : !v
  job.output "s", %s : tensor<2x16xf32>
  job.output "q", %q : !v
}
