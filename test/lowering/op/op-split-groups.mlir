// RUN: python %S/../Inputs/plant_times.py %s %t.db 'chain: task' 9000 'before: task' 1000 'middle: task' 1000 'after: task' 1000 'started: task' 9000 'begun: task' 3000 'exp: task' 1000 'close: task' 3100 'neg: task' 1540 'scaled: task' 9000 'mean: task' 500 'rest: task' 500 'hinted: task' 9000 'cuda_group: task' 20000 'cuda_exp: task' 3000 'cuda_neg: task' 3000
// RUN: penstock-opt %s -p 'op-split-groups{database="%t.db" gpu=device}' -o %t.once.mlir
// RUN: filecheck %s --input-file %t.once.mlir
// RUN: penstock-opt %s -p 'op-split-groups{database="%t.db" parts=2}' | filecheck %s --check-prefix=PARTS
// RUN: penstock-opt %s -p 'op-split-groups{database="%t.db"}' | filecheck %s --check-prefix=NO-GPU
// RUN: penstock-opt %t.once.mlir -p 'op-fuse-elementwise,op-fuse-epilogues,op-fuse-rows,op-split-groups{database="%t.db" gpu=device}' | filecheck %s

!t = tensor<8x8xf32>
!c = tensor<8x1xf32>
!n = tensor<64xf32>

// An op in the middle leaves two parts: what it needs, and all others, with constants of
// their own and all results that others use. Each part after the first one takes 500 ns
// more: 1000 + 1000 + 500 + 1000 + 500 = 4000. No pass fuses parts again.
// CHECK-LABEL: job.job @middle
// CHECK:         %d, %e = op.fused %x : {{.*}} attributes {placement = #job.placement<cpu, [0:1]>, not_fused = "measured: 3 parts take 4000 ns, one 9000"}
// CHECK:           op.constant dense<2
// CHECK:           op.mul
// CHECK:           op.exp
// CHECK:         %[[M:.*]] = op.sqrt %e {placement = #job.placement<cpu, [0:1]>, not_fused = "measured: 3 parts take 4000 ns, one 9000"}
// CHECK:         %chain = op.fused %[[M]], %x, %d : {{.*}} not_fused = {{.*}}, acme.note = 1
// CHECK:           op.add
// CHECK:           op.mul
// CHECK:         job.output "r", %chain
//
// Times of one part are not those of two.
// PARTS-LABEL: job.job @middle
// PARTS-NOT:     measured
job.job @middle placement <cpu, [0:0]> {
  %x = job.input "x" : !n
  %chain = op.fused %x : !n -> !n attributes {acme.note = 1 : i32, placement = #job.placement<cpu, [0:1]>} {
  ^bb0(%p: !n):
    %two = op.constant dense<2.0> : !n
    %d = op.mul %p, %two : !n, !n -> !n
    %e = op.exp %d : !n -> !n
    %q = op.sqrt %e : !n -> !n
    %s = op.add %q, %p : !n, !n -> !n
    %m = op.mul %s, %d : !n, !n -> !n
    op.yield %m : !n
  }
  job.output "r", %chain : !n
}

// What sums start from stays with them.
// CHECK-LABEL: job.job @starts
// CHECK:         %s = op.fused %x, %w, %b : {{.*}} starts attributes {not_fused = "measured: 2 parts take 4500 ns, one 9000"}
// CHECK:           op.matmul
// CHECK:           op.add
// CHECK:         %started = op.exp %s {not_fused
job.job @starts placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.input "w" : !t
  %b = job.input "b" : !t
  %started = op.fused %x, %w, %b : !t, !t, !t -> !t starts {
  ^bb0(%p: !t, %q: !t, %r: !t):
    %m = op.matmul %p, %q : !t, !t -> !t
    %s = op.add %m, %r : !t, !t -> !t
    %e = op.exp %s : !t -> !t
    op.yield %e : !t
  }
  job.output "r", %started : !t
}

// A gain of less than 2 % is none: 1000 + 1540 + 500 = 3040 of 3100 ns, at most 3038.
// CHECK-LABEL: job.job @close
// CHECK:         %close = op.fused
// CHECK-NOT:     measured
job.job @close placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %close = op.fused %x : !t -> !t {
  ^bb0(%p: !t):
    %e = op.exp %p : !t -> !t
    %n = op.neg %e : !t -> !t
    op.yield %n : !t
  }
  job.output "r", %close : !t
}

// Rows are split at any of their ops, too.
// CHECK-LABEL: job.job @rows
// CHECK:         %[[M:.*]] = op.reduce_mean %x axes [1] keepdims {not_fused = "measured: 2 parts take 1500 ns, one 9000"}
// CHECK:         %scaled = op.fused %x, %[[M]] : {{.*}} attributes {not_fused
// CHECK:           op.sub
// CHECK:           op.exp
job.job @rows placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %scaled = op.fused %x : !t -> !t {
  ^bb0(%p: !t):
    %m = op.reduce_mean %p axes [1] keepdims : !t -> !c
    %d = op.sub %p, %m : !t, !c -> !t
    %e = op.exp %d : !t -> !t
    op.yield %e : !t
  }
  job.output "r", %scaled : !t
}

// A group that says what it lies over stays one, as do those on several devices, and those
// of which nothing was measured.
// CHECK-LABEL: job.job @kept
// CHECK-NOT:     measured
job.job @kept placement <cpu, [0:0]> {
  %x = job.input "x" : !n
  %hinted = op.fused %x : !n -> !n attributes {in_place = [#op.hint<never over 0>]} {
  ^bb0(%p: !n):
    %e = op.sqrt %p : !n -> !n
    %q = op.sqrt %e : !n -> !n
    op.yield %q : !n
  }
  %two = op.fused %hinted : !n -> !n attributes {placement = #job.placement<cpu, [0:0-1]>} {
  ^bb0(%p: !n):
    %e = op.sqrt %p : !n -> !n
    %q = op.sqrt %e : !n -> !n
    op.yield %q : !n
  }
  %unknown = op.fused %hinted : !n -> !n {
  ^bb0(%p: !n):
    %e = op.sqrt %p : !n -> !n
    %q = op.tanh %e : !n -> !n
    op.yield %q : !n
  }
  job.output "r", %unknown : !n
}

// Times of a GPU are those of its name; a part takes 5000 ns more: 3000 + 3000 + 5000.
// CHECK-LABEL: job.job @device
// CHECK:         op.exp %x {not_fused = "measured: 2 parts take 11000 ns, one 20000"}
// CHECK:         op.neg
// NO-GPU-LABEL: job.job @device
// NO-GPU-NOT:     measured
job.job @device placement <cuda, [0:0]> {
  %x = job.input "x" : !t
  %cuda_group = op.fused %x : !t -> !t {
  ^bb0(%p: !t):
    %e = op.exp %p : !t -> !t
    %n = op.neg %e : !t -> !t
    op.yield %n : !t
  }
  job.output "r", %cuda_group : !t
}

// The ops that times are of.
// CHECK-LABEL: job.job @parts
job.job @parts placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %n = job.input "n" : !n
  %x1 = job.input "x1" : !t
  %x2 = job.input "x2" : !t
  %before, %powers = op.fused %n : !n -> !n, !n attributes {not_fused = "said"} {
  ^bb0(%p: !n):
    %two = op.constant dense<2.0> : !n
    %d = op.mul %p, %two : !n, !n -> !n
    %e = op.exp %d : !n -> !n
    op.yield %d, %e : !n, !n
  }
  %middle = op.sqrt %powers {not_fused = "said"} : !n -> !n
  %after = op.fused %middle, %n, %before : !n, !n, !n -> !n attributes {not_fused = "said"} {
  ^bb0(%q: !n, %p: !n, %d: !n):
    %s = op.add %q, %p : !n, !n -> !n
    %m = op.mul %s, %d : !n, !n -> !n
    op.yield %m : !n
  }
  %begun = op.fused %x, %x1, %x2 : !t, !t, !t -> !t starts attributes {not_fused = "said"} {
  ^bb0(%p: !t, %q: !t, %r: !t):
    %m = op.matmul %p, %q : !t, !t -> !t
    %s = op.add %m, %r : !t, !t -> !t
    op.yield %s : !t
  }
  %exp = op.exp %x {not_fused = "said"} : !t -> !t
  %neg = op.neg %exp {not_fused = "said"} : !t -> !t
  %mean = op.reduce_mean %x axes [1] keepdims {not_fused = "said"} : !t -> !c
  %rest = op.fused %x, %mean : !t, !c -> !t attributes {not_fused = "said"} {
  ^bb0(%p: !t, %m: !c):
    %d = op.sub %p, %m : !t, !c -> !t
    %e = op.exp %d : !t -> !t
    op.yield %e : !t
  }
  %cuda_exp = op.exp %x {not_fused = "said"} : !t -> !t
  %cuda_neg = op.neg %cuda_exp {not_fused = "said"} : !t -> !t
}
