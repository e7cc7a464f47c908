// RUN: penstock-opt %s --verify-diagnostics --split-input-file
// -----

// A step is done in the first act of a round or in the rest.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [] {
    // expected-error@+1 {{launch.fetch: a step is done when = "first" or "rest", got "last"}}
    launch.fetch "x" from @x {when = "last"}
  }
}

// -----

// A step is on a register.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  launch.actor @a kind "input_wise" on <0, cpu:0> stream 0 reads [@x] writes [@d] {
    // expected-error@+1 {{launch.fetch: a step is on a register that is read, got @y}}
    launch.fetch "x" from @x {on = @y}
  }
  launch.control @d slots 1
}

// -----

// Only who takes pieces in any order has steps on one.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [] {
    // expected-error@+1 {{launch.fetch: only steps of actors of other kinds are on a register, got @x}}
    launch.fetch "x" from @x {on = @x}
  }
}

// -----

// There are so many kinds.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: unknown kind 'switch', expected one of plain, case, esac, input_wise, lock, send_ids}}
  launch.actor @a kind "switch" on <0, cpu:0> stream 0 reads [@x] writes [] {
  }
}

// -----

// A case reads one number.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: an actor of kind 'case' reads 2 registers, not 1}}
  launch.actor @a kind "case" on <0, cpu:0> stream 0 reads [@x, @n] writes [@d] {
  }
  launch.control @d slots 1
}

// -----

// A case has branches.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: an actor of kind 'case' writes 0 registers, not at least one}}
  launch.actor @a kind "case" on <0, cpu:0> stream 0 reads [@n] writes [] {
  }
}

// -----

// A case makes no steps.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: an actor of kind 'case' has no steps}}
  launch.actor @a kind "case" on <0, cpu:0> stream 0 reads [@n] writes [@d] {
    launch.fetch "n" from @n
  }
  launch.control @d slots 1
}

// -----

// A lock lists what excludes each other.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: an actor of kind 'lock' needs lists}}
  launch.actor @a kind "lock" on <0, cpu:0> stream 0 reads [@n, @c] writes [@d] {
  }
  launch.control @d slots 1
}

// -----

// Others list nothing.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: an actor of kind 'plain' has no lists}}
  launch.actor @a lists [array<i64: 0>] on <0, cpu:0> stream 0 reads [@n] writes [] {
  }
}

// -----

// A lock lists sections.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: the lock lists section 1, but there are 1}}
  launch.actor @a kind "lock" lists [array<i64: 1>] on <0, cpu:0> stream 0 reads [@n, @c] writes [@d] {
  }
  launch.control @d slots 1
}

// -----

// Sections list each other: one that passes by another one that waits for it may do so for
// ever.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.register @m in @c0 at 576 slots 1 : memref<i64>
  launch.register @d in @c0 at 640 slots 1 : memref<i64>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@n, @m] {
  }
  // expected-error@+1 {{launch.actor: section 0 of the lock lists 1, which does not list it}}
  launch.actor @a kind "lock" lists [array<i64: 1>, array<i64>] on <0, cpu:0> stream 0 reads [@n, @m] writes [@d] {
  }
}

// -----

// A piece lasts for acts of who uses it.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: a piece of @x lasts for 2 acts of an actor that does not use it}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@n] writes [] every [@x = 2] {
  }
}

// -----

// A piece lasts for an act.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: a piece of @n lasts for at least one act, got 0}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@n] writes [] every [@n = 0] {
  }
}

// -----

// Only plain actors use a piece several times.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: a piece lasts for one act of kind 'esac'}}
  launch.actor @a kind "esac" on <0, cpu:0> stream 0 reads [@n] writes [@d] every [@n = 2] {
  }
  launch.control @d slots 1
}

// -----

// Steps write what has one round. Controls have others.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: what an actor writes has rounds of different lengths}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [@d, @e, @f] every [@d = 2, @e = 3, @f = 4] {
    launch.copy @x to @d
    launch.copy @x to @e
  }
  launch.register @d in @c0 at 640 slots 1 : memref<4xf32>
  launch.register @e in @c0 at 704 slots 1 : memref<4xf32>
  launch.control @f slots 1
}

// -----

// What lies over another register names one.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.register: @z lies over @c, which is no register with bytes of its own}}
  launch.register @z in @c0 at 0 slots 2 over @c : memref<4xf32>
}

// -----

// It lies where that does.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.register: @z lies over @x, but not where that starts}}
  launch.register @z in @c0 at 64 slots 2 over @x : memref<4xf32>
}

// -----

// It has a number of slots for each slot.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.register: @z lies over @x of 2 slots, but has 3, which is no multiple}}
  launch.register @z in @c0 at 0 slots 3 over @x : memref<4xf32>
}

// -----

// They are all of it, or its parts.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.register: a slot of @x has 16 bytes, but 2 of @z that lie over it have 4 each}}
  launch.register @z in @c0 at 0 slots 4 over @x : memref<1xf32>
}

// -----

// An interface lies over nothing.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.register: an interface lies over no other register}}
  launch.register @z in @c0 at 0 slots 1 interface "z" over @y : memref<8xf32>
}

// -----

// A copy is of what has the same type.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @n, @c] {
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [@y] every [@y = 3] {
    // expected-error@+1 {{launch.copy: @a copies memref<4xf32> to memref<8xf32>}}
    launch.copy @x to @y
  }
}

// -----

// Rates suit each other.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: @w and @a hand @x on every 1 and every 2 acts, but act 1 and 1 times in an iteration}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@n, @x] writes [] every [@x = 2] {
  }
}

// -----

// Numbers are of 64 bits.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: @a of kind 'case' needs a number in @x, which is no memref<i64>}}
  launch.actor @a kind "case" on <0, cpu:0> stream 0 reads [@x] writes [@d] {
  }
  launch.control @d slots 1
}

// -----

// A case hands on no data.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<8xf32>
  launch.register @n in @c0 at 512 slots 1 : memref<i64>
  launch.control @c slots 1
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x, @y, @n, @c] {
  }
  // expected-error@+1 {{launch.actor: @a of kind 'case' writes @d, which is no control}}
  launch.actor @a kind "case" on <0, cpu:0> stream 0 reads [@n] writes [@d] {
  }
  launch.register @d in @c0 at 768 slots 1 : memref<4xf32>
}

// -----

// Each act of an iteration is looked at, so there is a limit.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
  }
  // expected-error@+1 {{launch.actor: @a acts in an iteration 20000 times, which may be 16384 at most}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [] every [@x = 20000] {
  }
}

// -----

// A cycle has acts.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: an actor of kind 'cyclic' needs lists}}
  launch.actor @a kind "cyclic"  on <0, cpu:0> stream 0 reads [@x] writes [@y] {
  }
}

// -----

// Each act uses a register.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: act 1 of the cycle uses no register}}
  launch.actor @a kind "cyclic" lists [array<i64: 0, 1>, array<i64>] on <0, cpu:0> stream 0 reads [@x] writes [@y] {
  }
}

// -----

// An act lists registers in order.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: act 0 of the cycle lists registers in ascending order, each once, got [1, 0]}}
  launch.actor @a kind "cyclic" lists [array<i64: 1, 0>] on <0, cpu:0> stream 0 reads [@x] writes [@y] {
  }
}

// -----

// A cycle is about the registers of its actor.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: act 0 of the cycle lists register 2, but there are 2}}
  launch.actor @a kind "cyclic" lists [array<i64: 0, 2>] on <0, cpu:0> stream 0 reads [@x] writes [@y] {
  }
}

// -----

// A cycle uses all of them.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: no act of the cycle uses @y}}
  launch.actor @a kind "cyclic" lists [array<i64: 0>] on <0, cpu:0> stream 0 reads [@x] writes [@y] {
  }
}

// -----

// Steps of a cycle are on registers.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a kind "cyclic" lists [array<i64: 0, 1>] on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    // expected-error@+1 {{launch.copy: a step of a cycle is on a register, where it is not done in all acts, got when = "first"}}
    launch.copy @x to @y {when = "first"}
  }
}

// -----

// A step is on a register of the actor.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a kind "cyclic" lists [array<i64: 0, 1>] on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    // expected-error@+1 {{launch.copy: a step is on a register that is read or written, got @w}}
    launch.copy @x to @y {on = @w}
  }
}

// -----

// A step names what its acts use.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a kind "cyclic" lists [array<i64: 0, 1>, array<i64: 0>] on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    // expected-error@+1 {{launch.copy: act 1 of the cycle does not use @y}}
    launch.copy @x to @y
  }
}

// -----

// An act writes what it hands on.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: no step writes @y in act 1 of the cycle}}
  launch.actor @a kind "cyclic" lists [array<i64: 0, 1>, array<i64: 1>] on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    launch.copy @x to @y {on = @x}
  }
}

// -----

// Views are of all acts.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: an actor with a cycle has no views}}
  launch.actor @a kind "cyclic" lists [array<i64: 0, 1>] on <0, cpu:0> stream 0 reads [@x] writes [@y] views [@x at 0 as @y] {
  }
}

// -----

// A cycle has no loops.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a kind "cyclic" lists [array<i64: 0, 1>] on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    // expected-error@+1 {{launch.loop: a cycle has no loops or conditions}}
    launch.loop 2 {
      launch.copy @x to @y
    }
  }
}

// -----

// A cycle commits nothing.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @y in @c0 at 256 slots 1 : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a kind "cyclic" lists [array<i64: 0, 1>] on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    launch.copy @x to @y
    // expected-error@+1 {{launch.commit: a cycle has no commits, as acts follow that may fail}}
    launch.commit
  }
}

// -----

// What lies over another register is handed on at one rate.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @x in @c0 at 0 slots 1 : memref<4xf32>
  launch.register @y in @c0 at 0 slots 1 over @x : memref<4xf32>
  launch.actor @w on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{@a has a cycle, and writes @y, which lies over another one}}
  launch.actor @a kind "cyclic" lists [array<i64: 0, 1>] on <0, cpu:0> stream 0 reads [@x] writes [@y] {
  }
}
