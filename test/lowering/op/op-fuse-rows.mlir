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

// Nor rows that are used twice, with what follows; nor other types, places and lines, nor
// what asks for slots.
// CHECK-LABEL: job.job @declined
// CHECK-NOT: op.fused
job.job @declined placement <cpu, [0:0-1]> {
  %x = job.input "x" : !x
  %g = job.input "g" : !g
  %n = op.softmax %x : !x -> !x
  %y = op.relu %n : !x -> !x
  %z = op.exp %n : !x -> !x
  %w = op.add %g, %g : !g, !g -> !g
  %v = op.softmax %w : !g -> !g
  %c = op.relu %x : !x -> !x
  %d = op.softmax %c axis 0 : !x -> !x
  %e = op.relu %x {slots = 2 : i64} : !x -> !x
  %f = op.softmax %e : !x -> !x
  %h = op.relu %x {placement = #job.placement<cpu, [0:1]>} : !x -> !x
  %i = op.log_softmax %h {placement = #job.placement<cpu, [0:0]>} : !x -> !x
  %j = op.cast %i to f64 : !x -> tensor<4x8xf64>
  job.output "y", %y : !x
  job.output "z", %z : !x
  job.output "v", %v : !g
  job.output "d", %d : !x
  job.output "f", %f : !x
  job.output "j", %j : tensor<4x8xf64>
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

// What the last of them reads may have other users, also one behind it.
// CHECK-LABEL: job.job @several_kept
job.job @several_kept placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %r = job.input "r" : !x
  %g = job.input "g" : !g
  // CHECK:      %m, %s = op.fused %x, %g, %r
  // CHECK:        op.yield %{{.+}}, %{{.+}} : tensor<4x8xf32>, tensor<4x8xf32>
  // CHECK:      %y = op.mul %m, %s
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
  %e = op.exp %n : !x -> !x
  // CHECK: op.softmax %n {no_rows = "order: others read what op.softmax makes before"}
  %a = op.softmax %n : !x -> !x
  // CHECK: op.fused {{.*}}no_rows = "place: op.softmax runs in another place"}
  %p = op.softmax %x : !x -> !x
  %b = op.log_softmax %p {placement = #job.placement<cpu, [0:1]>} : !x -> !x
  %c = op.relu %b {placement = #job.placement<cpu, [0:1]>} : !x -> !x
  // CHECK: op.softmax %{{.*}} {no_rows = "slots: op.softmax asks for them"}
  %q = op.softmax %x {slots = 2 : i64} : !x -> !x
  %d = op.softmax %q : !x -> !x
  job.output "e", %e : !x
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

// Not along other axes, of few rows, of operands that are repeated or that others use, nor
// what asks for slots or runs in another place.
// CHECK-LABEL: job.job @not_combined
// CHECK-NOT:     op.fused
job.job @not_combined placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<16x8xf32>
  %g = job.input "g" : tensor<8xf32>
  %a = op.exp %x : tensor<16x8xf32> -> tensor<16x8xf32>
  %b = op.reduce_sum %a axes [0] : tensor<16x8xf32> -> tensor<8xf32>
  job.output "b", %b : tensor<8xf32>
  %c = op.exp %x : tensor<16x8xf32> -> tensor<16x8xf32>
  %d = op.reduce_sum %c : tensor<16x8xf32> -> tensor<f32>
  job.output "d", %d : tensor<f32>
  %e = op.add %x, %g : tensor<16x8xf32>, tensor<8xf32> -> tensor<16x8xf32>
  %f = op.reduce_sum %e axes [1] : tensor<16x8xf32> -> tensor<16xf32>
  job.output "f", %f : tensor<16xf32>
  %h = op.exp %x : tensor<16x8xf32> -> tensor<16x8xf32>
  %i = op.reduce_sum %h axes [1] : tensor<16x8xf32> -> tensor<16xf32>
  job.output "h", %h : tensor<16x8xf32>
  job.output "i", %i : tensor<16xf32>
  %j = op.exp %x {slots = 2 : i64} : tensor<16x8xf32> -> tensor<16x8xf32>
  %k = op.reduce_sum %j axes [1] : tensor<16x8xf32> -> tensor<16xf32>
  job.output "k", %k : tensor<16xf32>
  %l = op.exp %x {placement = #job.placement<cpu, [0:1]>} : tensor<16x8xf32> -> tensor<16x8xf32>
  %m = op.reduce_sum %l axes [1] {placement = #job.placement<cpu, [0:0]>} : tensor<16x8xf32> -> tensor<16xf32>
  job.output "m", %m : tensor<16xf32>
}
