// RUN: penstock-opt %s -p op-fuse-epilogues | filecheck %s

!x = tensor<4x8xf32>
!w = tensor<8x8xf32>
!b = tensor<8xf32>
!y = tensor<4x8xf32>

// An elementwise op is computed with the product that only it uses.
// CHECK-LABEL: job.job @fused
job.job @fused placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.input "w" : !w
  %b = job.input "b" : !b
  %m = op.matmul %x, %w : !x, !w -> !y
  // CHECK:      %s = op.fused %x, %w, %b : tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32> -> tensor<4x8xf32> {
  // CHECK-NEXT: ^bb0(%[[X:.+]]: tensor<4x8xf32>, %[[W:.+]]: tensor<8x8xf32>, %[[B:.+]]: tensor<8xf32>):
  // CHECK-NEXT:   %[[M:.+]] = op.matmul %[[X]], %[[W]]
  // CHECK-NEXT:   %[[S:.+]] = op.add %[[M]], %[[B]]
  // CHECK-NEXT:   op.yield %[[S]]
  // CHECK-NEXT: }
  // CHECK-NEXT: job.output "y", %s
  %s = op.add %m, %b : !y, !b -> !y
  job.output "y", %s : !y
}

// So are those of a group, which may use the product twice, and a convolution is a sum of
// products, too.
// CHECK-LABEL: job.job @group
job.job @group placement <cpu, [0:0]> {
  %i = job.input "i" : tensor<1x2x4x4xf32>
  %w = job.input "w" : tensor<2x2x1x1xf32>
  %c = op.conv2d %i, %w strides [1, 1] : tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32> -> tensor<1x2x4x4xf32>
  // CHECK:      op.fused %i, %w
  // CHECK:        %[[C:.+]] = op.conv2d
  // CHECK-NEXT:   %[[Q:.+]] = op.sigmoid %[[C]]
  // CHECK-NEXT:   %[[S:.+]] = op.mul %[[C]], %[[Q]]
  // CHECK-NEXT:   op.yield %[[S]]
  // CHECK-NOT:  op.fused
  // CHECK:      job.output
  %r = op.fused %c : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32> {
  ^bb0(%p: tensor<1x2x4x4xf32>):
    %q = op.sigmoid %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32>
    %s = op.mul %p, %q : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32>
    op.yield %s : tensor<1x2x4x4xf32>
  }
  job.output "r", %r : tensor<1x2x4x4xf32>
}

// Of two products that an op reads, the later operand is computed with it. Slots of the
// elementwise op are those of the whole.
// CHECK-LABEL: job.job @two
job.job @two placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.input "w" : !w
  // CHECK:      %m = op.matmul
  // CHECK-NEXT: %s = op.fused %x, %w, %m : {{.*}} attributes {slots = 2 : i64} {
  %m = op.matmul %x, %w : !x, !w -> !y
  %n = op.matmul %x, %w : !x, !w -> !y
  %s = op.add %m, %n {slots = 2 : i64} : !y, !y -> !y
  job.output "s", %s : !y
}

// A product that something else uses, that has slots or a placement of its own, or that
// the elementwise op broadcasts or turns into another type, is not.
// CHECK-LABEL: job.job @apart
// CHECK-NOT:   op.fused
job.job @apart placement <cpu, [0:0-1]> {
  %x = job.input "x" : !x
  %w = job.input "w" : !w
  %m = op.matmul %x, %w : !x, !w -> !y
  %a = op.relu %m : !y -> !y
  job.output "m", %m : !y
  job.output "a", %a : !y
  %n = op.matmul %x, %w {slots = 2 : i64} : !x, !w -> !y
  %b = op.relu %n : !y -> !y
  job.output "b", %b : !y
  %o = op.matmul %x, %w {placement = #job.placement<cpu, [0:1]>} : !x, !w -> !y
  %c = op.relu %o {placement = #job.placement<cpu, [0:0]>} : !y -> !y
  job.output "c", %c : !y
  %p = op.matmul %x, %w : !x, !w -> !y
  %z = job.input "z" : tensor<2x4x8xf32>
  %d = op.add %p, %z : !y, tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  job.output "d", %d : tensor<2x4x8xf32>
  %q = op.matmul %x, %w : !x, !w -> !y
  %e = op.cast %q to f64 : !y -> tensor<4x8xf64>
  job.output "e", %e : tensor<4x8xf64>
}

// Nor what is cut in parts, nor an op that computes with other types than its result's.
// CHECK-LABEL: job.job @parts
// CHECK:       op.relu %m
// CHECK:       op.matmul
// CHECK-NEXT:  %b = op.fused %n :
job.job @parts placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.input "w" : !w
  %m = op.matmul %x, %w {sbp = #job.sbp<S(0)>} : !x, !w -> !y
  %a = op.relu %m : !y -> !y
  job.output "a", %a : !y
  %n = op.matmul %x, %w : !x, !w -> !y
  %b = op.fused %n : !y -> !y {
  ^bb0(%p: !y):
    %q = op.cast %p to i32 : !y -> tensor<4x8xi32>
    %r = op.cast %q to f32 : tensor<4x8xi32> -> !y
    op.yield %r : !y
  }
  job.output "b", %b : !y
}

// -----

// A convolution with one channel a group has a task of its own.

// CHECK-LABEL: job.job @channels
job.job @channels placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x4x8x8xf32>
  %w = job.input "w" : tensor<4x1x3x3xf32>
  // CHECK-NOT: op.fused
  // CHECK:     op.conv2d
  // CHECK-NOT: op.fused
  // CHECK:     op.relu
  %y = op.conv2d %x, %w groups 4 : tensor<1x4x8x8xf32>, tensor<4x1x3x3xf32> -> tensor<1x4x6x6xf32>
  %z = op.relu %y : tensor<1x4x6x6xf32> -> tensor<1x4x6x6xf32>
  job.output "z", %z : tensor<1x4x6x6xf32>
}

// What is added to sums is where they start, if it is of their type, also from among
// other additions; what follows them follows the whole.
// CHECK-LABEL: job.job @starts
job.job @starts placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.input "w" : !w
  %b = job.input "b" : !b
  %r = job.input "r" : !y
  // CHECK:      %s = op.fused %x, %w, %b, %r : {{.*}} -> tensor<4x8xf32> starts {
  // CHECK-NEXT: ^bb0(%[[X:.+]]: tensor<4x8xf32>, %[[W:.+]]: tensor<8x8xf32>, %[[B:.+]]: tensor<8xf32>, %[[R:.+]]: tensor<4x8xf32>):
  // CHECK-NEXT:   %[[M:.+]] = op.matmul %[[X]], %[[W]]
  // CHECK-NEXT:   %[[S:.+]] = op.add %[[M]], %[[R]]
  // CHECK-NEXT:   %[[T:.+]] = op.add %[[S]], %[[B]]
  // CHECK-NEXT:   %[[U:.+]] = op.relu %[[T]]
  // CHECK-NEXT:   op.yield %[[U]]
  %m = op.matmul %x, %w : !x, !w -> !y
  %s = op.fused %m, %b, %r : !y, !b, !y -> !y {
  ^bb0(%p: !y, %q: !b, %a: !y):
    %t = op.add %p, %q : !y, !b -> !y
    %u = op.add %a, %t : !y, !y -> !y
    %v = op.relu %u : !y -> !y
    op.yield %v : !y
  }
  job.output "s", %s : !y
}

// So is what alone is added. Sums that are used twice, or by an op that is no addition
// before, start from zero, and so do those of other devices.
// CHECK-LABEL: job.job @alone
job.job @alone placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.input "w" : !w
  %r = job.input "r" : !y
  %m = op.matmul %x, %w : !x, !w -> !y
  // CHECK: %s = op.fused {{.*}} starts {
  %s = op.add %r, %m : !y, !y -> !y
  %n = op.matmul %x, %w : !x, !w -> !y
  // CHECK: %t = op.fused
  // CHECK-NOT: starts
  %t = op.fused %n, %r : !y, !y -> !y {
  ^bb0(%p: !y, %a: !y):
    %u = op.mul %p, %p : !y, !y -> !y
    %v = op.add %u, %a : !y, !y -> !y
    op.yield %v : !y
  }
  // CHECK: %y = op.fused
  // CHECK-NOT: starts
  %o = op.matmul %x, %w {placement = #job.placement<cuda, [0:0]>} : !x, !w -> !y
  %y = op.add %o, %r {placement = #job.placement<cuda, [0:0]>} : !y, !y -> !y
  // CHECK: job.output "s"
  job.output "s", %s : !y
  job.output "t", %t : !y
  job.output "y", %y : !y
}

// What others read is a result, too, of the sums and of what is made of them; ops that
// only read such results join. Readers stand behind the group. On GPUs it is the same.
// CHECK-LABEL: job.job @several
job.job @several placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.input "w" : !w
  %r = job.input "r" : !y
  %m = op.matmul %x, %w : !x, !w -> !y
  job.output "m", %m : !y
  // CHECK-NOT:  job.output
  // CHECK:      %s, %g, %m = op.fused %x, %w, %r : {{.*}} -> tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32> {
  // CHECK-NEXT: ^bb0(%[[X:.+]]: tensor<4x8xf32>, %[[W:.+]]: tensor<8x8xf32>, %[[R:.+]]: tensor<4x8xf32>):
  // CHECK-NEXT:   %[[M:.+]] = op.matmul %[[X]], %[[W]]
  // CHECK-NEXT:   %[[G:.+]] = op.gelu %[[M]]
  // CHECK-NEXT:   %[[S:.+]] = op.add %[[M]], %[[R]]
  // CHECK-NEXT:   op.yield %[[S]], %[[G]], %[[M]]
  // CHECK-NEXT: }
  // CHECK-NEXT: job.output "m", %m
  %g = op.gelu %m : !y -> !y
  %s = op.add %m, %r : !y, !y -> !y
  job.output "g", %g : !y
  job.output "s", %s : !y
  // CHECK:      %z, %y = op.fused
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT:   %[[Y:.+]] = op.matmul
  // CHECK-NEXT:   %[[Z:.+]] = op.relu %[[Y]]
  // CHECK-NEXT:   op.yield %[[Z]], %[[Y]]
  %y = op.matmul %x, %w {placement = #job.placement<cuda, [0:0]>} : !x, !w -> !y
  %z = op.relu %y {placement = #job.placement<cuda, [0:0]>} : !y -> !y
  job.output "y", %y : !y
  job.output "z", %z : !y
}

// A reader that stands before keeps them apart.
// CHECK-LABEL: job.job @readers
job.job @readers placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.input "w" : !w
  // CHECK: %m = op.matmul
  // CHECK: %g = op.fused %m, %o
  %m = op.matmul %x, %w : !x, !w -> !y
  %n = op.transpose %m by [1, 0] : !y -> tensor<8x4xf32>
  %o = op.reshape %n to [4, 8] : tensor<8x4xf32> -> !y
  %g = op.fused %m, %o : !y, !y -> !y {
  ^bb0(%p: !y, %q: !y):
    %t = op.add %p, %q : !y, !y -> !y
    op.yield %t : !y
  }
  job.output "g", %g : !y
}

// A group of which one result does not depend on the sums stays apart.
// CHECK-LABEL: job.job @beside
job.job @beside placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.input "w" : !w
  %r = job.input "r" : !y
  // CHECK: %m = op.matmul
  // CHECK: %s, %n = op.fused %m, %r
  %m = op.matmul %x, %w : !x, !w -> !y
  %s, %n = op.fused %m, %r : !y, !y -> !y, !y {
  ^bb0(%p: !y, %q: !y):
    %t = op.relu %q : !y -> !y
    %u = op.sub %t, %p : !y, !y -> !y
    %v = op.neg %t : !y -> !y
    op.yield %u, %v : !y, !y
  }
  job.output "s", %s : !y
  job.output "n", %n : !y
}
