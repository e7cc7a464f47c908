// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// A view starts so many bytes after what it has the bytes of: inside of a register or of a
// variable, or around several.

!t = memref<16xf32>
!h = memref<8xf32>

launch.program @views rank 0 {
  launch.chunk @c on <0, host> size 384
  launch.variable @w in @c at 256 init <ones> : !t
  launch.register @x in @c at 0 slots 2 : !t
  launch.register @same in @c at 0 slots 2 : !t
  launch.register @a in @c at 128 slots 1 : !h
  launch.register @b in @c at 160 slots 1 : !h
  launch.register @whole in @c at 128 slots 1 : !t
  launch.register @part in @c at 288 slots 1 : !h
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @a, @b] {
    launch.feed "x" to @x
    launch.feed "a" to @a
    launch.feed "b" to @b
  }
  // CHECK: launch.actor @same_ on <0, cpu:0> stream 0 reads [@x] writes [@same] views [@x as @same] {
  launch.actor @same_ on <0, cpu:0> stream 0 reads [@x] writes [@same] views [@x at 0 as @same] { }
  // CHECK: reads [@a, @b] writes [@whole] views [@a as @whole, @b at -32 as @whole] {
  launch.actor @whole_ on <0, cpu:0> stream 0 reads [@a, @b] writes [@whole] views [@a as @whole, @b at -32 as @whole] { }
  // CHECK: reads [] writes [@part] views [@w at 32 as @part] {
  launch.actor @part_ on <0, cpu:0> stream 0 reads [] writes [@part] views [@w at 32 as @part] { }
}

// As an attribute it has brackets.
// CHECK: note = #launch.view<@x at 32 as @y>
builtin.module attributes {acme.note = #launch.view<@x at 32 as @y>} { }
