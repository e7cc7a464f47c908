// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | filecheck %s --check-prefix=GENERIC

// A program may be empty.
// CHECK:      launch.program @empty rank 0 {
// CHECK-NEXT: ^bb0:
// CHECK-NEXT: }
launch.program @empty rank 0 {
^bb0:
}

// CHECK: launch.program @job rank 3 {
// GENERIC: "launch.program"() <{sym_name = "job", rank = 3 : i64}>
launch.program @job rank 3 {
  // CHECK-NEXT: launch.chunk @c0 on <3, host> size 1088
  launch.chunk @c0 on <3, host> size 1088

  // Two slots of 16 bytes start at 0 and 64.
  // CHECK-NEXT: launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  // CHECK-NEXT: launch.register @"y/out" in @c0 at 1024 slots 1 : memref<4x4xf32>
  launch.register @"y/out" in @c0 at 1024 slots 1 : memref<4x4xf32>

  // CHECK-NEXT: launch.control @go slots 2
  launch.control @go slots 2
  // CHECK-NEXT: launch.control @turn slots 2 initial 1
  launch.control @turn slots 2 initial 1

  // The name that weights are given under may differ from the symbol.
  // CHECK-NEXT: launch.variable @w in @c0 at 512 init <he_normal, seed = 7> : memref<4x4xf32>
  launch.variable @w in @c0 at 512 init <he_normal, seed = 7> : memref<4x4xf32>
  // CHECK-NEXT: launch.variable @p port "w" in @c0 at 640 init <he_normal, seed = 7> part [2, 1] of [4, 4] : memref<1x3xf32>
  launch.variable @p port "w" in @c0 at 640 init <he_normal, seed = 7> part [2, 1] of [4, 4] : memref<1x3xf32>
  // CHECK-NEXT: launch.variable @b_1 port "b" also ["b/1", "b/2"] in @c0 at 768 init <zeros> : memref<4xf32>
  launch.variable @b_1 port "b" also ["b/1", "b/2"] in @c0 at 768 init <zeros> : memref<4xf32>
  // CHECK-NEXT: launch.variable @t in @c0 at 832 value dense<[1, 2]> : tensor<2xi64> : memref<2xi64>
  launch.variable @t in @c0 at 832 value dense<[1, 2]> : tensor<2xi64> : memref<2xi64>

  // CHECK-NEXT: launch.kernel @zero target "cpu" (%[[OUT:.+]]: memref<4x4xf32>) {
  // CHECK-NEXT:   %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
  // CHECK-NEXT:   linalg.fill ins(%[[ZERO]] : f32) outs(%[[OUT]] : memref<4x4xf32>)
  launch.kernel @zero target "cpu" (%o: memref<4x4xf32>) {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : memref<4x4xf32>)
  }
  // CHECK:      launch.kernel @nothing target "cpu" () attributes {acme.note = "kept"} {
  launch.kernel @nothing target "cpu" () attributes {acme.note = "kept"} {
  }

  // An actor may read and write no register, one of control, and do several steps.
  // CHECK:      launch.actor @feed on <3, cpu:0> stream 0 reads [@turn] writes [@x] {
  // CHECK-NEXT:   launch.feed "x" to @x
  launch.actor @feed on <3, cpu:0> stream 0 reads [@turn] writes [@x] {
    launch.feed "x" to @x
  }
  // CHECK:      launch.actor @work on <3, cpu:0> stream 1 reads [@x] writes [@"y/out", @go] {
  // CHECK-NEXT:   launch.call @zero [@"y/out"]
  // CHECK-NEXT:   launch.copy @w to @"y/out"
  // CHECK-NEXT:   launch.call @nothing []
  launch.actor @work on <3, cpu:0> stream 1 reads [@x] writes [@"y/out", @go] {
    launch.call @zero [@"y/out"]
    launch.copy @w to @"y/out"
    launch.call @nothing []
  }
  // CHECK:      launch.actor @fetch on <3, cpu:0> stream 0 reads [@"y/out", @go] writes [@turn] {
  // CHECK-NEXT:   launch.fetch "y" from @"y/out"
  launch.actor @fetch on <3, cpu:0> stream 0 reads [@"y/out", @go] writes [@turn] {
    launch.fetch "y" from @"y/out"
  }
  // CHECK:      launch.actor @idle on <3, cpu:0> stream 0 reads [] writes [] {
  // CHECK-NEXT: }
  launch.actor @idle on <3, cpu:0> stream 0 reads [] writes [] {
  ^bb0:
  }
  // CHECK-NEXT: launch.actor @view on <3, cpu:0> stream 0 reads [] writes [] {
  // CHECK-NEXT: }
  launch.actor @view on <3, cpu:0> stream 0 reads [] writes [] { }
}

// In a program of several jobs each actor says its own. What one writes to an interface
// another one reads, and may release before it ends.
// CHECK: launch.program @jobs rank 0 exclusive {{\[\["train", "eval"\]\]}} attributes {acme.note} {
// GENERIC: "launch.program"() <{sym_name = "jobs", rank = 0 : i64, exclusive = {{\[\["train", "eval"\]\]}}}>
launch.program @jobs rank 0 exclusive [["train", "eval"]] attributes {acme.note} {
  launch.chunk @c on <0, host> size 64
  // CHECK: launch.register @"train/x" in @c at 0 slots 1 interface "x" : memref<4xf32>
  launch.register @"train/x" in @c at 0 slots 1 interface "x" : memref<4xf32>
  // CHECK: launch.register @"eval/x" in @c at 0 slots 1 interface "x" {acme.note} : memref<4xf32>
  launch.register @"eval/x" in @c at 0 slots 1 interface "x" {acme.note} : memref<4xf32>
  // CHECK: launch.actor @train job "train" on <0, cpu:0> stream 0 reads [] writes [@"train/x"] {
  launch.actor @train job "train" on <0, cpu:0> stream 0 reads [] writes [@"train/x"] {
    launch.feed "x" to @"train/x"
  }
  launch.actor @eval job "eval" on <0, cpu:0> stream 0 reads [] writes [@"eval/x"] { }
  // CHECK:      launch.actor @release job "eval" on <0, cpu:0> stream 0 reads [@"eval/x"] writes [] {
  // CHECK-NEXT:   launch.release @"eval/x"
  launch.actor @release job "eval" on <0, cpu:0> stream 0 reads [@"eval/x"] writes [] {
    launch.release @"eval/x"
  }
}

// An actor that can fail says so, and one that commits has a step of its own.
// CHECK: launch.program @failing rank 0 {
launch.program @failing rank 0 {
  // CHECK: launch.actor @a on <0, cpu:0> stream 0 can_fail reads [] writes [] {
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [] writes [] { }
  // CHECK:      launch.actor @commit on <0, cpu:0> stream 1 reads [] writes [] {
  // CHECK-NEXT:   launch.commit
  launch.actor @commit on <0, cpu:0> stream 1 reads [] writes [] { launch.commit }
}
