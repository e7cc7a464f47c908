// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | filecheck %s --check-prefix=GENERIC

launch.program @rates rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @g in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @sum in @c0 at 128 slots 1 : memref<4xf32>
  launch.register @batch in @c0 at 256 slots 1 : memref<16xf32>
  // Each slot of the batch is four of these.
  // CHECK: launch.register @part in @c0 at 256 slots 4 over @batch : memref<4xf32>
  launch.register @part in @c0 at 256 slots 4 over @batch : memref<4xf32>
  // CHECK: launch.register @again in @c0 at 128 slots 3 over @sum : memref<4xf32>
  launch.register @again in @c0 at 128 slots 3 over @sum : memref<4xf32>
  launch.control @c slots 2

  // GENERIC: "launch.actor"() <{sym_name = "acc"
  // GENERIC-SAME: every = {sum = 4 : i64}
  // CHECK:      launch.actor @acc on <0, cpu:0> stream 0 reads [@g] writes [@sum] every [@sum = 4] {
  // CHECK-NEXT:   launch.copy @g to @sum {when = "first"}
  // CHECK-NEXT:   launch.copy @g to @sum {when = "rest"}
  launch.actor @acc on <0, cpu:0> stream 0 reads [@g] writes [@sum] every [@sum = 4] {
    launch.copy @g to @sum {when = "first"}
    launch.copy @g to @sum {when = "rest"}
  }
  // A copy to what lasts for four acts and has four times the rows fills a part.
  // CHECK: launch.actor @pack {{.*}} every [@batch = 4] {
  launch.actor @pack on <0, cpu:0> stream 0 reads [@g] writes [@batch] every [@batch = 4] {
    launch.copy @g to @batch
  }
  launch.actor @x on <0, cpu:0> stream 0 reads [] writes [@g] {
    launch.feed "x" to @g
  }
  // CHECK: launch.actor @both {{.*}} reads [@batch, @sum] writes [@part] every [@batch = 4, @sum = 4] attributes {acme.note} {
  launch.actor @both on <0, cpu:0> stream 0 reads [@batch, @sum] writes [@part] every [@batch = 4, @sum = 4] attributes {acme.note} {
  }
}

launch.program @kinds rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @id in @c0 at 0 slots 2 : memref<i64>
  launch.register @next in @c0 at 128 slots 1 : memref<i64>
  launch.register @granted in @c0 at 192 slots 1 : memref<i64>
  launch.register @end in @c0 at 256 slots 1 : memref<i64>
  launch.register @s in @c0 at 320 slots 1 : memref<i64>
  launch.control @a slots 1
  launch.control @b slots 1
  launch.actor @ids on <0, cpu:0> stream 0 reads [] writes [@id] {
    launch.feed "id" to @id
  }
  // CHECK:      launch.actor @send kind "send_ids" lists [array<i64: 0, 1>, array<i64>] on <0, cpu:0> stream 0 reads [@id] writes [@next] {
  launch.actor @send kind "send_ids" lists [array<i64: 0, 1>, array<i64>] on <0, cpu:0> stream 0 reads [@id] writes [@next] {
  }
  // CHECK:      launch.actor @lock kind "lock" lists [array<i64: 1>, array<i64: 0>] on
  launch.actor @lock kind "lock" lists [array<i64: 1>, array<i64: 0>] on <0, cpu:0> stream 0 reads [@next, @end] writes [@granted] {
  }
  // CHECK:      launch.actor @case kind "case" on
  launch.actor @case kind "case" on <0, cpu:0> stream 0 reads [@granted] writes [@a, @b] {
  }
  launch.actor @esac kind "esac" on <0, cpu:0> stream 0 reads [@a, @b] writes [@end] {
  }
  // CHECK:      launch.actor @any kind "input_wise" on
  // CHECK-NEXT:   launch.copy @next to @s {on = @next}
  // CHECK-NEXT:   launch.copy @id to @s {on = @id, when = "first"}
  launch.actor @any kind "input_wise" on <0, cpu:0> stream 0 reads [@next, @id] writes [@s] {
    launch.copy @next to @s {on = @next}
    launch.copy @id to @s {on = @id, when = "first"}
  }
  launch.register @z in @c0 at 384 slots 1 : memref<i64>
  // CHECK:      launch.actor @by_turns kind "cyclic" lists [array<i64: 0, 2>, array<i64: 1, 2>] on
  // CHECK-NEXT:   launch.copy @s to @z {on = @s}
  // CHECK-NEXT:   launch.copy @id to @z {on = @id}
  launch.actor @by_turns kind "cyclic" lists [array<i64: 0, 2>, array<i64: 1, 2>] on <0, cpu:0> stream 0 reads [@s, @id] writes [@z] {
    launch.copy @s to @z {on = @s}
    launch.copy @id to @z {on = @id}
  }
}
