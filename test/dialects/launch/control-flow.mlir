// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Steps of an actor may be loops and conditions with steps of their own. These use bytes of
// registers and variables under local names, other ones in each iteration.

!v = memref<2xf32>

launch.program @scan rank 0 {
  launch.chunk @c0 on <0, host> size 4096
  launch.variable @w in @c0 at 0 init <ones> : memref<4x2xf32>
  launch.register @xs in @c0 at 64 slots 2 : memref<20x2xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.register @c in @c0 at 576 slots 1 : memref<i1>
  launch.register @ys in @c0 at 640 slots 2 : memref<20x2xf32>
  launch.register @h in @c0 at 1024 slots 1 : !v
  launch.register @m in @c0 at 1088 slots 1 : memref<i64>
  launch.register @"scan/body" in @c0 at 1152 slots 1 : memref<320xi8>
  launch.kernel @zero target "cpu" (%o: !v) {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !v)
  }
  launch.kernel @add target "cpu" (%a: !v, %b: !v, %o: !v) {
    "memref.copy"(%a, %o) : (!v, !v) -> ()
  }
  launch.kernel @test target "cpu" (%i: memref<i64>, %o: memref<i1>) {
    %z = arith.constant false
    memref.store %z, %o[] : memref<i1>
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@xs, @n, @c] {
    launch.feed "xs" to @xs
    launch.feed "n" to @n
    launch.feed "c" to @c
  }
  launch.actor @scan_ on <0, cpu:0> stream 0 can_fail reads [@xs, @n, @c] writes [@ys, @h, @m, @"scan/body"] {
    launch.call @zero [@h]
    // CHECK: launch.loop 20 {
    launch.loop 20 {
      // CHECK-NEXT: launch.subview @x of @xs at 0 step 8 : memref<2xf32>
      launch.subview @x of @xs at 0 step 8 : !v
      // CHECK-NEXT: launch.subview @p of @"scan/body" at 64 : memref<2xf32>
      launch.subview @p of @"scan/body" at 64 : !v
      launch.subview @y of @ys at 0 step 8 : !v
      // CHECK: launch.carry @h_in to @h_out in [@h at 0, @"scan/body" at 0] : memref<2xf32>
      launch.carry @h_in to @h_out in [@h at 0, @"scan/body" at 0] : !v
      launch.subview @i of @"scan/body" at 72 : memref<i64>
      // CHECK: launch.number @i
      launch.number @i
      launch.call @add [@x, @h_in, @p]
      // CHECK: launch.loop 4 backward {
      launch.loop 4 backward {
        launch.subview @v of @w at 0 step 8 : !v
        // CHECK: launch.subview @half of @v at 4 : memref<1xf32>
        launch.subview @half of @v at 4 : memref<1xf32>
        launch.call @add [@v, @p, @h_out]
      }
      launch.copy @h_out to @y
    }
    // CHECK: launch.loop up to 100 count @n while @go made @m {
    launch.loop up to 100 count @n while @go made @m {
      launch.carry @go to @goes in [@"scan/body" at 80] : memref<i1>
      launch.subview @j of @"scan/body" at 88 : memref<i64>
      launch.number @j
      launch.call @test [@j, @goes]
    }
    // CHECK: launch.loop up to 3 count @n backward {
    launch.loop up to 3 count @n backward { }
    // CHECK-NEXT: }
    // CHECK-NEXT: launch.loop up to 5 while @go2 {
    launch.loop up to 5 while @go2 {
      launch.carry @go2 to @goes2 in [@"scan/body" at 80] : memref<i1>
      launch.call @test [@m, @goes2]
    }
    // CHECK: launch.if @c {
    launch.if @c {
      launch.subview @q of @"scan/body" at 96 : !v
      launch.call @zero [@q]
    // CHECK: } else {
    } else {
      launch.loop 0 { }
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@ys, @h, @m, @"scan/body"] writes [] {
    launch.fetch "ys" from @ys
    launch.fetch "h" from @h
  }
}

// As an attribute a place has brackets.
// CHECK: note = #launch.place<@x at 32>
builtin.module attributes {acme.note = #launch.place<@x at 32>} { }
