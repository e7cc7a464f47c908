// RUN: penstock-opt %s -p verify-program --verify-diagnostics --split-input-file | filecheck %s

// Each message is sent and received once. Two messages of one tag differ in their ranks,
// and a variable may be sent.

!t = memref<4xf32>

// CHECK-LABEL: launch.program @left
launch.program @left rank 0 {
  launch.chunk @c on <0, network> size 256
  launch.variable @w in @c at 0 init <zeros> : !t
  launch.register @y in @c at 64 slots 2 : !t
  launch.actor @w_ on <0, cpu:0> stream 0 reads [] writes [] { launch.send @w to 1 tag 0 }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [] writes [@y] { launch.receive @y from 1 tag 0 }
  launch.actor @end on <0, cpu:0> stream 1 reads [@y] writes [] { launch.fetch "y" from @y }
}
launch.program @right rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 2 : !t
  launch.actor @x_ on <1, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 0 tag 0 }
  launch.actor @y_ on <1, cpu:0> stream 0 reads [@x] writes [] { launch.send @x to 0 tag 0 }
}

// -----

// The programs of two jobs: a rank has one of each, which the names say.

!t = memref<4xf32>

launch.program @a_0 rank 0 {
  launch.chunk @c on <0, network> size 128
  launch.variable @w in @c at 0 init <zeros> : !t
  launch.actor @w_ on <0, cpu:0> stream 0 reads [] writes [] { launch.send @w to 1 tag 0 }
}
launch.program @a_1 rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 2 : !t
  launch.actor @x_ on <1, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 0 tag 0 }
}
launch.program @b_0 rank 0 {
  launch.chunk @c on <0, network> size 128
  launch.variable @w in @c at 0 init <zeros> : !t
  // expected-error@+1 {{verify-program: @w_ of rank 0 sends message 7 to rank 1, where @x_ waits for message 0}}
  launch.actor @w_ on <0, cpu:0> stream 0 reads [] writes [] { launch.send @w to 1 tag 7 }
}
launch.program @b_1 rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 2 : !t
  launch.actor @x_ on <1, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 0 tag 0 }
}

// -----

// What is missing: the other end, or a program that could have it.

!t = memref<4xf32>

launch.program @left rank 0 {
  launch.chunk @c on <0, network> size 256
  launch.variable @w in @c at 0 init <zeros> : !t
  launch.register @y in @c at 64 slots 2 : !t
  // expected-error@+1 {{@w_ of rank 0 sends message 0 to rank 1, where nothing receives it}}
  launch.actor @w_ on <0, cpu:0> stream 0 reads [] writes [] { launch.send @w to 1 tag 0 }
  // expected-error@+1 {{@far of rank 0 sends message 1 to rank 2, which has no program}}
  launch.actor @far on <0, cpu:0> stream 0 reads [] writes [] { launch.send @w to 2 tag 1 }
  // expected-error@+1 {{@y_ of rank 0 receives message 2 of rank 3, which has no program}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [] writes [@y] { launch.receive @y from 3 tag 2 }
}
launch.program @right rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 2 : !t
  launch.actor @end on <1, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
}

// -----

// One end too many. The other message is received by nobody: both ends are sent.

!t = memref<4xf32>

launch.program @left rank 0 {
  launch.chunk @c on <0, network> size 128
  launch.variable @w in @c at 0 init <zeros> : !t
  launch.actor @first on <0, cpu:0> stream 0 reads [] writes [] { launch.send @w to 1 tag 0 }
  // expected-error@+1 {{@first and @again of rank 0 both send message 0 to rank 1}}
  launch.actor @again on <0, cpu:0> stream 0 reads [] writes [] { launch.send @w to 1 tag 0 }
  launch.actor @other on <0, cpu:0> stream 0 reads [] writes [] { launch.send @w to 1 tag 1 }
}
launch.program @right rank 1 {
  launch.chunk @c on <1, network> size 256
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @y in @c at 64 slots 1 : !t
  launch.register @z in @c at 128 slots 1 : !t
  launch.actor @x_ on <1, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 0 tag 0 }
  launch.actor @y_ on <1, cpu:0> stream 0 reads [] writes [@y] { launch.receive @y from 0 tag 1 }
  // expected-error@+1 {{@y_ and @z_ of rank 1 both receive message 1 of rank 0}}
  launch.actor @z_ on <1, cpu:0> stream 0 reads [] writes [@z] { launch.receive @z from 0 tag 1 }
}

// -----

// Both ends are of the same type.

launch.program @left rank 0 {
  launch.chunk @c on <0, network> size 128
  launch.variable @w in @c at 0 init <zeros> : memref<4xf32>
  launch.actor @w_ on <0, cpu:0> stream 0 reads [] writes [] { launch.send @w to 1 tag 0 }
}
launch.program @right rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 1 : memref<4xi32>
  // expected-error@+1 {{@w_ of rank 0 sends message 0 as memref<4xf32>, but @x_ of rank 1 receives memref<4xi32>}}
  launch.actor @x_ on <1, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 0 tag 0 }
}

// -----

// Both ends act equally often in an iteration.

!t = memref<4xf32>

launch.program @left rank 0 {
  launch.chunk @c on <0, network> size 128
  launch.register @w in @c at 0 slots 1 : !t
  launch.register @v in @c at 64 slots 1 : !t
  launch.actor @w_ on <0, cpu:0> stream 0 reads [] writes [@w] every [@w = 4] { launch.feed "w" to @w }
  launch.actor @v_ on <0, cpu:0> stream 0 reads [@w] writes [@v] { launch.copy @w to @v }
  launch.actor @out on <0, cpu:0> stream 0 reads [@v] writes [] { launch.send @v to 1 tag 0 }
}
launch.program @right rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @y in @c at 64 slots 1 : !t
  // expected-error@+1 {{@out of rank 0 sends message 0 once in an iteration, but @x_ of rank 1 receives it 2 times}}
  launch.actor @x_ on <1, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 0 tag 0 }
  launch.actor @y_ on <1, cpu:0> stream 0 reads [@x] writes [@y] every [@y = 2] { launch.copy @x to @y }
  launch.actor @end on <1, cpu:0> stream 0 reads [@y] writes [] { launch.fetch "y" from @y }
}

// -----

// A program has one rank, which is that of its messages, and no other one has it.

!t = memref<4xf32>

launch.program @left rank 2 {
  launch.chunk @c on <0, network> size 128
  launch.variable @w in @c at 0 init <zeros> : !t
  // expected-error@+1 {{@w_ has a message of rank 0, but @left is of rank 2}}
  launch.actor @w_ on <0, cpu:0> stream 0 reads [] writes [] { launch.send @w to 1 tag 0 }
}
launch.program @right rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 1 : !t
  launch.actor @x_ on <1, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 0 tag 0 }
}
// expected-error@+1 {{@right and @again are both of rank 1}}
launch.program @again rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 1 : !t
  launch.actor @x_ on <1, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 0 tag 0 }
}

// -----

// Each rank hands on what it gets: nothing ever begins.

!t = memref<4xf32>

launch.program @left rank 0 {
  launch.chunk @c on <0, network> size 256
  launch.register @x in @c at 0 slots 2 : !t
  // expected-error@+1 {{ranks wait for each other: @in of rank 0 -> @out of rank 0 -> @in of rank 1 -> @out of rank 1 -> @in of rank 0; no slots break the cycle}}
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 1 tag 0 }
  launch.actor @out on <0, cpu:0> stream 0 reads [@x] writes [] { launch.send @x to 1 tag 0 }
}
launch.program @right rank 1 {
  launch.chunk @c on <1, network> size 256
  launch.register @x in @c at 0 slots 2 : !t
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 0 tag 0 }
  launch.actor @out on <1, cpu:0> stream 0 reads [@x] writes [] { launch.send @x to 0 tag 0 }
}

// -----

// @a goes on once @b has acted, as the one slot of @turn is full, and @b needs what comes
// back of what @a makes. The other rank is listed first.

!t = memref<4xf32>

launch.program @right rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 1 : !t
  // expected-error@+1 {{ranks wait for each other: @in of rank 1 -> @out of rank 1 -> @in of rank 0 -> @b of rank 0 -> @a of rank 0 -> @out of rank 0 -> @in of rank 1; it takes 1 more slot for @turn of rank 0 to break all such cycles}}
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 0 tag 0 }
  launch.actor @out on <1, cpu:0> stream 0 reads [@x] writes [] { launch.send @x to 0 tag 1 }
}
launch.program @left rank 0 {
  launch.chunk @c on <0, network> size 256
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @y in @c at 64 slots 1 : !t
  launch.control @turn slots 1 initial 1
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x, @turn] { launch.feed "x" to @x }
  launch.actor @out on <0, cpu:0> stream 1 reads [@x] writes [] { launch.send @x to 1 tag 0 }
  launch.actor @in on <0, cpu:0> stream 1 reads [] writes [@y] { launch.receive @y from 1 tag 1 }
  launch.actor @b on <0, cpu:0> stream 0 reads [@y, @turn] writes [] { launch.fetch "y" from @y }
}

// -----

// Four pieces are there before the sum of them comes back, and the one slot of @r is held
// for @s, which needs that sum: two cycles are one deadlock.

!t = memref<4xf32>

launch.program @left rank 0 {
  launch.chunk @c on <0, network> size 512
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @r in @c at 64 slots 1 : !t
  launch.register @back in @c at 128 slots 1 : !t
  launch.register @s in @c at 192 slots 1 : !t
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  // expected-error@+1 {{it takes 3 more slots for @r of rank 0 to break all such cycles}}
  launch.actor @r_ on <0, cpu:0> stream 0 reads [@x] writes [@r] every [@x = 4] { launch.copy @x to @r }
  launch.actor @out on <0, cpu:0> stream 1 reads [@r] writes [] { launch.send @r to 1 tag 0 }
  launch.actor @in on <0, cpu:0> stream 1 reads [] writes [@back] { launch.receive @back from 1 tag 1 }
  launch.actor @s_ on <0, cpu:0> stream 0 reads [@r, @back] writes [@s] every [@back = 4] { launch.copy @r to @s }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@s] writes [] { launch.fetch "y" from @s }
}
launch.program @right rank 1 {
  launch.chunk @c on <1, network> size 256
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @sum in @c at 64 slots 1 : !t
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 0 tag 0 }
  launch.actor @sum_ on <1, cpu:0> stream 1 reads [@x] writes [@sum] every [@sum = 4] { launch.copy @x to @sum }
  launch.actor @out on <1, cpu:0> stream 0 reads [@sum] writes [] { launch.send @sum to 0 tag 1 }
}

// -----

// What one rank waits for in vain is told by its own rules alone.

!t = memref<4xf32>

launch.program @left rank 0 {
  launch.chunk @c on <0, network> size 256
  launch.register @x in @c at 0 slots 1 : !t
  launch.control @k slots 1
  launch.control @l slots 1
  // expected-error@+1 {{a cycle of actors has no token, so none ever acts: @x_ -> @out -> @x_}}
  launch.actor @x_ on <0, cpu:0> stream 0 reads [@k] writes [@x, @l] { launch.feed "x" to @x }
  launch.actor @out on <0, cpu:0> stream 1 reads [@x, @l] writes [@k] { launch.send @x to 1 tag 0 }
}
launch.program @right rank 1 {
  launch.chunk @c on <1, network> size 256
  launch.register @x in @c at 0 slots 1 : !t
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 0 tag 0 }
  launch.actor @y on <1, cpu:0> stream 1 reads [@x] writes [] { launch.fetch "y" from @x }
}

// -----

// All ranks of a collective take part in it, alike; a message does not share its tag.

!t = memref<4xf32>

launch.program @left rank 0 {
  launch.chunk @c on <0, network> size 576
  launch.variable @w in @c at 0 init <zeros> : !t
  launch.register @a in @c at 64 slots 1 : !t
  launch.register @b in @c at 128 slots 1 : !t
  launch.register @d in @c at 192 slots 1 : !t
  launch.register @e in @c at 256 slots 1 : memref<8xf32>
  launch.register @f in @c at 320 slots 1 : !t
  launch.register @g in @c at 384 slots 1 : !t
  launch.register @h in @c at 448 slots 1 : !t
  // expected-error@+1 {{@a_ of rank 0 takes part in collective 0 with rank 1, which does not}}
  launch.actor @a_ on <0, cpu:0> stream 0 reads [] writes [@a] { launch.collective "all_reduce" by "ring" over [0, 1] tag 0 [@w] into [@a] }
  // expected-error@+1 {{@b_ of rank 0 takes part in collective 1 with rank 2, which has no program}}
  launch.actor @b_ on <0, cpu:0> stream 0 reads [] writes [@b] { launch.collective "all_reduce" by "ring" over [0, 2] tag 1 [@w] into [@b] }
  launch.actor @d_ on <0, cpu:0> stream 0 reads [] writes [@d] { launch.collective "all_reduce" by "ring" over [0, 1] tag 2 [@w] into [@d] }
  launch.actor @e_ on <0, cpu:0> stream 0 reads [] writes [@e] { launch.collective "all_gather" by "ring" over [0, 1] tag 3 [@w] into [@e] }
  launch.actor @f_ on <0, cpu:0> stream 0 reads [] writes [@f] { launch.collective "all_reduce" by "ring" over [0, 1] tag 4 [@w] into [@f] }
  // expected-error@+1 {{@f_ and @g_ of rank 0 both take part in collective 4}}
  launch.actor @g_ on <0, cpu:0> stream 0 reads [] writes [@g] { launch.collective "all_reduce" by "ring" over [0, 1] tag 4 [@w] into [@g] }
  // expected-error@+1 {{@s of rank 0 has a message of tag 2, which is that of collective 2 of the same ranks}}
  launch.actor @s on <0, cpu:0> stream 0 reads [] writes [] { launch.send @w to 1 tag 2 }
  // expected-error@+1 {{@h_ of rank 0 is not the first of collective 5, which it sends}}
  launch.actor @h_ on <0, cpu:0> stream 0 reads [] writes [] { launch.collective "broadcast" by "ring" over [1, 0] tag 5 [@w] into [] }
}
launch.program @right rank 1 {
  launch.chunk @c on <1, network> size 512
  launch.variable @w in @c at 0 init <zeros> : !t
  launch.variable @v in @c at 64 init <zeros> : memref<2xf32>
  launch.register @d in @c at 128 slots 1 : !t
  launch.register @e in @c at 192 slots 1 : memref<4xf32>
  launch.register @f in @c at 256 slots 1 : !t
  launch.register @s in @c at 320 slots 2 : !t
  launch.register @h in @c at 448 slots 1 : !t
  // expected-error@+1 {{@d_ of rank 0 takes part in collective 2 as all_reduce by ring of ranks 0, 1, but @d_ of rank 1 as all_reduce by mpi of ranks 0, 1}}
  launch.actor @d_ on <1, cpu:0> stream 0 reads [] writes [@d] { launch.collective "all_reduce" by "mpi" over [0, 1] tag 2 [@w] into [@d] }
  // expected-error@+1 {{@e_ of rank 0 takes part in collective 3 as memref<4xf32> and memref<8xf32>, but @e_ of rank 1 as memref<2xf32> and memref<4xf32>}}
  launch.actor @e_ on <1, cpu:0> stream 0 reads [] writes [@e] { launch.collective "all_gather" by "ring" over [0, 1] tag 3 [@v] into [@e] }
  launch.actor @f_ on <1, cpu:0> stream 0 reads [] writes [@f] { launch.collective "all_reduce" by "ring" over [0, 1] tag 4 [@w] into [@f] }
  // expected-error@+1 {{@s_ of rank 1 has a message of tag 2, which is that of collective 2 of the same ranks}}
  launch.actor @s_ on <1, cpu:0> stream 0 reads [] writes [@s] { launch.receive @s from 0 tag 2 }
  // expected-error@+1 {{@h_ of rank 1 reads nothing for collective 5, which it sends}}
  launch.actor @h_ on <1, cpu:0> stream 0 reads [] writes [@h] { launch.collective "broadcast" by "ring" over [1, 0] tag 5 [] into [@h] }
}

// -----

// Two ranks take part in two collectives in different orders.

!t = memref<4xf32>

launch.program @left rank 0 {
  launch.chunk @c on <0, network> size 192
  launch.variable @w in @c at 0 init <zeros> : !t
  launch.register @a in @c at 64 slots 1 : !t
  launch.register @b in @c at 128 slots 1 : !t
  // expected-error@+1 {{ranks wait for each other: @a_ of rank 0 -> @b_ of rank 0 -> @b_ of rank 1 -> @a_ of rank 1 -> @a_ of rank 0; no slots break the cycle}}
  launch.actor @a_ on <0, cpu:0> stream 0 reads [] writes [@a] { launch.collective "all_reduce" by "ring" over [0, 1] tag 0 [@w] into [@a] }
  launch.actor @b_ on <0, cpu:0> stream 0 reads [@a] writes [@b] { launch.collective "all_reduce" by "ring" over [0, 1] tag 1 [@a] into [@b] }
}
launch.program @right rank 1 {
  launch.chunk @c on <1, network> size 192
  launch.variable @w in @c at 0 init <zeros> : !t
  launch.register @a in @c at 64 slots 1 : !t
  launch.register @b in @c at 128 slots 1 : !t
  launch.actor @b_ on <1, cpu:0> stream 0 reads [] writes [@b] { launch.collective "all_reduce" by "ring" over [0, 1] tag 1 [@w] into [@b] }
  launch.actor @a_ on <1, cpu:0> stream 0 reads [@b] writes [@a] { launch.collective "all_reduce" by "ring" over [0, 1] tag 0 [@b] into [@a] }
}
