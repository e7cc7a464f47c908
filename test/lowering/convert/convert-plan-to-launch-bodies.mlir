// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-mark-interfaces,regst-alias-registers,regst-plan-memory -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: penstock-opt %t.mlir -p plan-create-registers,regst-mark-interfaces,regst-alias-registers,regst-plan-memory -o %t.again.mlir
// RUN: diff %t.mlir %t.again.mlir
// RUN: penstock-opt %t.mlir -p verify-plan,convert-plan-to-launch | filecheck %s --check-prefix LAUNCH

// The memory of a body is one register of its task: here the value that is read in one
// place and made in another, and two that are not used at the same time. Passes that have
// run leave it alone.

// CHECK-LABEL: plan.plan @scan
// CHECK:       regst.register "h/memory" {{.*}} : !regst.data<tensor<136xi8>>
// CHECK:       outs(%h, %ys, {{.*}} : !regst.data<tensor<3x4xf32>>, !regst.data<tensor<7x3x4xf32>>, !regst.data<tensor<136xi8>>)
// CHECK:         plan.plan @scan
// CHECK:           regst.chunk on <0, host> size 136
// CHECK:           regst.register "i/out" in %kept{{.*}} at 64 slots 1 interface "in_0"
// CHECK:           regst.register "g/out" in %kept{{.*}} at 0 slots 1 interface "in_1"
// CHECK:           regst.register "x/out" slots 1 interface "in_2"
// CHECK:           regst.register "y/out" slots 1 interface "out_0"

// LAUNCH-LABEL: launch.actor @h on
// LAUNCH-SAME:  reads [@"h0/out", @"xs/out", @"w/out"] writes [@"h/out", @"h/out_1", @"h/memory"]
// LAUNCH-NEXT:    launch.subview @"h/memory/first" of @"h/memory" at {{[0-9]+}} : memref<3x4xf32>
// LAUNCH-NEXT:    launch.copy @"h0/out" to @"h/memory/first"
// LAUNCH-NEXT:    launch.loop 7 backward {
// LAUNCH-NEXT:      launch.subview @"h/memory/i/out" of @"h/memory" at {{[0-9]+}} : memref<i64>
// LAUNCH-NEXT:      launch.number @"h/memory/i/out"
// LAUNCH-NEXT:      launch.carry @"h/memory/before" to @"h/memory/after" in [@"h/out" at 0, @"h/memory/first" at 0] : memref<3x4xf32>
// LAUNCH-NEXT:      launch.subview @"h/memory/x/out" of @"xs/out" at 0 step 48 : memref<3x4xf32>
// LAUNCH-NEXT:      launch.subview @"h/memory/s/out" of @"h/out_1" at 0 step 48 : memref<3x4xf32>
// LAUNCH:           launch.call @matmul_0 [@"h/memory/before", @"w/out", @"h/memory/m/out"]
// LAUNCH-NEXT:      launch.call @add_0 [@"h/memory/m/out", @"h/memory/x/out", @"h/memory/s/out"]
job.job @scan placement <cpu, [0:0]> {
  %h0 = job.input "h0" : tensor<3x4xf32>
  %xs = job.input "xs" : tensor<7x3x4xf32>
  %w = job.input "w" : tensor<4x4xf32>
  %h, %ys = op.loop 7 backward carries(%h0 : tensor<3x4xf32>)
      slices(%xs : tensor<7x3x4xf32>) reads(%w : tensor<4x4xf32>)
      -> tensor<3x4xf32>, tensor<7x3x4xf32> {
  ^bb0(%i: tensor<i64>, %g: tensor<3x4xf32>, %x: tensor<3x4xf32>,
       %v: tensor<4x4xf32>):
    %m = op.matmul %g, %v : tensor<3x4xf32>, tensor<4x4xf32> -> tensor<3x4xf32>
    %s = op.add %m, %x : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
    %f = op.cast %i to f32 : tensor<i64> -> tensor<f32>
    %y = op.mul %s, %f : tensor<3x4xf32>, tensor<f32> -> tensor<3x4xf32>
    op.yield %y, %s : tensor<3x4xf32>, tensor<3x4xf32>
  }
  job.output "h", %h : tensor<3x4xf32>
  job.output "ys", %ys : tensor<7x3x4xf32>
}

// A value that is handed on as it is, and one that is yielded twice, are copied.

// LAUNCH-LABEL: launch.program @twice
// LAUNCH:       launch.copy @"a0/out" to @"b/out"
// LAUNCH-NEXT:  launch.copy @"b0/out" to @"b/out_1"
// LAUNCH-NEXT:  launch.loop 4 {
// LAUNCH-NEXT:    launch.carry [[A:@.*]] to [[B:@.*]] in [@"b/out" at 0, @"b/memory" at {{[0-9]+}}] : memref<4xf32>
// LAUNCH-NEXT:    launch.carry [[C:@.*]] to [[D:@.*]] in [@"b/out_1" at 0, @"b/memory" at {{[0-9]+}}] : memref<4xf32>
// LAUNCH-NEXT:    launch.subview [[E:@.*]] of @"b/out_2" at 0 step 16 : memref<4xf32>
// LAUNCH-NEXT:    launch.call @tanh_0 {{\[}}[[A]], [[D]]]
// LAUNCH-NEXT:    launch.copy [[C]] to [[B]]
// LAUNCH-NEXT:    launch.copy [[D]] to [[E]]
job.job @twice placement <cpu, [0:0]> {
  %a0 = job.input "a0" : tensor<4xf32>
  %b0 = job.input "b0" : tensor<4xf32>
  %b, %a, %ys = op.loop 4 carries(%a0, %b0 : tensor<4xf32>, tensor<4xf32>)
      -> tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32> {
  ^bb0(%i: tensor<i64>, %p: tensor<4xf32>, %q: tensor<4xf32>):
    %t = op.tanh %p : tensor<4xf32> -> tensor<4xf32>
    op.yield %q, %t, %t : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  job.output "a", %a : tensor<4xf32>
  job.output "b", %b : tensor<4xf32>
  job.output "zs", %ys : tensor<4x4xf32>
}

// Branches write where the condition's results are; both have one memory.

// LAUNCH-LABEL: launch.program @either
// LAUNCH:       launch.if @"c/out" {
// LAUNCH:         launch.call @exp_0 [@"x/out", [[H:@.*]]]
// LAUNCH-NEXT:    launch.call @matmul_0 {{.*}}, @"y/out"]
// LAUNCH-NEXT:  } else {
// LAUNCH-NEXT:    launch.call @softmax_0 [@"x/out", @"y/out"]
// LAUNCH-NEXT:  }
job.job @either placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf32>
  %c = job.input "c" : tensor<i1>
  %y = op.if %c reads(%x : tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>):
    %e = op.exp %a : tensor<4x4xf32> -> tensor<4x4xf32>
    %m = op.matmul %e, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    op.yield %m : tensor<4x4xf32>
  } else {
  ^bb0(%b: tensor<4x4xf32>):
    %t = op.softmax %b axis 1 : tensor<4x4xf32> -> tensor<4x4xf32>
    op.yield %t : tensor<4x4xf32>
  }
  job.output "y", %y : tensor<4x4xf32>
}

// The condition of a loop up to a maximum is the first value that it carries, and first
// values lie where last ones do. Stacked results are zeros at first. A first value that
// nothing else reads is where the last one is.

// LAUNCH-LABEL: launch.program @bounded
// LAUNCH:       launch.actor @c on <0, cpu:0> stream 0 can_fail
// LAUNCH-SAME:  views [@"e/out" as @"c/out_1"]
// LAUNCH-NEXT:    launch.copy @"c0/out" to @"c/out"
// LAUNCH-NEXT:    launch.call @constant_0 [@"c/out_2"]
// LAUNCH-NEXT:    launch.loop up to 9 count @"n/out" while [[GOING:@.*]] made @"c/out_3" {
// LAUNCH-NEXT:      launch.carry [[GOING]] to [[AGAIN:@.*]] in [@"c/out" at 0] : memref<i1>
// LAUNCH-NEXT:      launch.carry [[H:@.*]] to [[Y:@.*]] in [@"c/out_1" at 0, @"c/memory" at 0] : memref<f32>
// LAUNCH:           launch.call @sqrt_0 {{\[}}[[H]], [[Y]]]
// LAUNCH-NEXT:      launch.call @greater_0 {{\[}}[[H]], [[Y]], [[AGAIN]]]
job.job @bounded placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  %c0 = job.input "going" : tensor<i1>
  %h0 = job.input "start" : tensor<f32>
  %e = op.exp %h0 : tensor<f32> -> tensor<f32>
  %c, %h, %ys, %made = op.loop up to 9 count(%n) while(%c0)
      carries(%e : tensor<f32>) made
      -> tensor<i1>, tensor<f32>, tensor<9xf32>, tensor<i64> {
  ^bb0(%i: tensor<i64>, %going: tensor<i1>, %g: tensor<f32>):
    %y = op.sqrt %g : tensor<f32> -> tensor<f32>
    %again = op.greater %g, %y : tensor<f32>, tensor<f32> -> tensor<i1>
    op.yield %again, %y, %y : tensor<i1>, tensor<f32>, tensor<f32>
  }
  job.output "last", %h : tensor<f32>
  job.output "all", %ys : tensor<9xf32>
  job.output "made", %made : tensor<i64>
}

// A carried value that an op makes in place lies in one place.

// LAUNCH-LABEL: launch.program @in_place
// LAUNCH:       launch.copy @"k0/out" to @"k/out"
// LAUNCH-NEXT:  launch.loop 63 {
// LAUNCH-NEXT:    launch.carry [[A:@.*]] to [[B:@.*]] in [@"k/out" at 0] : memref<64x32xf32>
// LAUNCH:         launch.call @add_0 [{{.*}}, [[B]]]
job.job @in_place placement <cpu, [0:0]> {
  %k0 = job.input "k0" : tensor<64x32xf32>
  %r = job.input "row" : tensor<1x32xf32>
  %k = op.loop 63 carries(%k0 : tensor<64x32xf32>) reads(%r : tensor<1x32xf32>)
      -> tensor<64x32xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<64x32xf32>, %q: tensor<1x32xf32>):
    %n = op.add %c, %q : tensor<64x32xf32>, tensor<1x32xf32> -> tensor<64x32xf32>
    op.yield %n : tensor<64x32xf32>
  }
  job.output "k", %k : tensor<64x32xf32>
}

// A view of a value that is made in place is a part of the new one, not of the one before.

// LAUNCH-LABEL: launch.program @view_of_new
// LAUNCH:       launch.carry [[A:@.*]] to [[B:@.*]] in [@"t/out" at 0] : memref<f32>
// LAUNCH-NEXT:  launch.subview [[E:@.*]] of @"terms/out" at 0 step 4 : memref<f32>
// LAUNCH-NEXT:  launch.subview [[Y:@.*]] of @"t/out_1" at 0 step 8 : memref<2xf32>
// LAUNCH-NEXT:  launch.subview [[R:@.*]] of [[B]] at 0 : memref<1xf32>
// LAUNCH-NEXT:  launch.call @add_0 [[[E]], [[B]]]
// LAUNCH-NEXT:  launch.call @concat_0 [[[R]], [[R]], [[Y]]]
job.job @view_of_new placement <cpu, [0:0]> {
  %terms = job.input "terms" : tensor<12xf32>
  %start = job.input "start" : tensor<f32>
  %t, %pairs = op.loop 12 carries(%start : tensor<f32>) slices(%terms : tensor<12xf32>)
      -> tensor<f32>, tensor<12x2xf32> {
  ^bb0(%i: tensor<i64>, %s: tensor<f32>, %e: tensor<f32>):
    %n = op.add %s, %e : tensor<f32>, tensor<f32> -> tensor<f32>
    %r = op.reshape %n to [1] : tensor<f32> -> tensor<1xf32>
    %y = op.concat %r, %r axis 0 : tensor<1xf32>, tensor<1xf32> -> tensor<2xf32>
    op.yield %n, %y : tensor<f32>, tensor<2xf32>
  }
  job.output "total", %t : tensor<f32>
  job.output "pairs", %pairs : tensor<12x2xf32>
}
