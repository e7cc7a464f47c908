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
