// RUN: penstock-opt %s --verify-diagnostics --split-input-file

launch.program @p rank 0 {
  // expected-error@+1 {{launch.control: 2 slots are full at the start, but there are only 1}}
  launch.control @k slots 1 initial 2
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  // expected-error@+1 {{launch.variable: a variable needs either an initialiser or a value}}
  launch.variable @w in @c at 0 : memref<4xf32>
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  // expected-error@+1 {{launch.variable: the variable has the name 'a' twice}}
  launch.variable @w port "a" also ["b", "a"] in @c at 0 init <zeros> : memref<4xf32>
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  // expected-error@+1 {{launch.variable: a variable needs either an initialiser or a value}}
  launch.variable @w in @c at 0 init <zeros> value dense<0.0> : tensor<4xf32> : memref<4xf32>
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  // expected-error@+1 {{launch.variable: the value of a variable of type memref<2x2xf32> has type tensor<4xf32>}}
  launch.variable @w in @c at 0 value dense<0.0> : tensor<4xf32> : memref<2x2xf32>
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  // expected-error@+1 {{launch.variable: the value of a variable of type memref<4xf32> has type tensor<4xi32>}}
  launch.variable @w in @c at 0 value dense<0> : tensor<4xi32> : memref<4xf32>
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  // expected-error@+1 {{launch.register: expected a dense memref of static shape, got memref<?xf32>}}
  launch.register @x in @c at 0 slots 1 : memref<?xf32>
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  // expected-error@+1 {{launch.variable: a part of shape [4] from [3] on is not inside [6]}}
  launch.variable @p in @c at 0 init <zeros> part [3] of [6] : memref<4xf32>
  // expected-error@+1 {{launch.variable: a value is no part of a whole}}
  launch.variable @v in @c at 0 part [0] of [6] value dense<0.0> : tensor<4xf32> : memref<4xf32>
  // expected-error@+1 {{launch.variable: expected a dense memref of static shape, got memref<4xf32, strided<[2]>>}}
  launch.variable @w in @c at 0 init <zeros> : memref<4xf32, strided<[2]>>
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  // expected-error@+1 {{launch.register: expected elements of a fixed size, got index}}
  launch.register @x in @c at 0 slots 1 : memref<4xindex>
}

// -----

launch.program @p rank 0 {
  // expected-error@+1 {{launch.kernel: a kernel works on memrefs, got f32}}
  launch.kernel @k target "cpu" (%x: f32) {
  }
}

// -----

launch.program @p rank 0 {
  // expected-error@+1 {{launch.kernel: expected a dense memref of static shape, got memref<?xf32>}}
  launch.kernel @k target "cpu" (%x: memref<?xf32>) {
  }
}

// -----

launch.program @p rank 0 {
  launch.kernel @k target "cpu" () {
    // expected-error@+1 {{test.op is no op of a kernel}}
    "test.op"() : () -> ()
  }
}

// -----

launch.program @p rank 0 {
  launch.kernel @k target "cpu" () {
    // expected-error@+1 {{arith.constant: an index of a kernel has 64 bits, got 9223372036854775808}}
    %0 = arith.constant 9223372036854775808 : index
  }
}

// -----

launch.program @p rank 0 {
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [] {
    // expected-error@+1 {{arith.constant is no step of an actor}}
    %0 = arith.constant 0 : i32
  }
}

// -----

launch.program @p rank 0 {
  launch.control @k slots 1 initial 1
  // expected-error@+1 {{launch.actor: an actor reads or writes a register twice}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@k, @k] writes [@k] {
  ^bb0:
  }
}

// -----

launch.program @p rank 0 {
  launch.control @k slots 1
  // expected-error@+1 {{launch.actor: an actor reads or writes a register twice}}
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@k, @k] {
  ^bb0:
  }
}

// -----

launch.program @p rank 0 {
  launch.control @a slots 1
  // expected-error@+1 {{launch.actor: two ops are named @a}}
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [] {
  ^bb0:
  }
}

// -----

launch.program @p rank 0 {
  // expected-error@+1 {{test.op is no op of a program}}
  "test.op"() : () -> ()
}

// -----

launch.program @p rank 0 {
  launch.control @k slots 1
  // expected-error@+1 {{launch.register: @x lies in @k, which is no chunk}}
  launch.register @x in @k at 0 slots 1 : memref<4xf32>
}

// -----

launch.program @p rank 0 {
  // expected-error@+1 {{launch.variable: @w lies in @nowhere, which is no chunk}}
  launch.variable @w in @nowhere at 0 init <zeros> : memref<4xf32>
}

// -----

// The second slot of 16 bytes starts 64 bytes after the first.

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 143
  // expected-error@+1 {{launch.register: @x ends at byte 144, past the 143 of @c}}
  launch.register @x in @c at 64 slots 2 : memref<4xf32>
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 15
  // expected-error@+1 {{launch.variable: @w ends at byte 16, past the 15 of @c}}
  launch.variable @w in @c at 0 init <zeros> : memref<4xf32>
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, device cuda:0> size 1024
  // expected-error@+1 {{launch.register: the memory of @x starts at byte 24, not at a multiple of 16}}
  launch.register @x in @c at 24 slots 1 : memref<2xf32>
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  // expected-error@+1 {{launch.register: the memory of @x starts at byte 6, not at a multiple of 4}}
  launch.register @x in @c at 6 slots 1 : memref<4xf32>
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  // expected-error@+1 {{launch.actor: @a uses @c, which is no register}}
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@c] {
  ^bb0:
  }
}

// -----

launch.program @p rank 0 {
  // expected-error@+1 {{launch.actor: @a uses @nothing, which is no register}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@nothing] writes [] {
  ^bb0:
  }
}

// -----

launch.program @p rank 0 {
  launch.control @k slots 1
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@k] {
  ^bb0:
  }
  // expected-error@+1 {{launch.actor: @k is written by both @a and @b}}
  launch.actor @b on <0, cpu:0> stream 0 reads [] writes [@k] {
  ^bb0:
  }
}

// -----

launch.program @p rank 0 {
  launch.control @k slots 1
  // expected-error@+1 {{launch.actor: @a reads @k, which no actor writes}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@k] writes [] {
  ^bb0:
  }
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <zeros> : memref<4xf32>
  launch.register @x in @c at 64 slots 1 : memref<2x2xf32>
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{launch.copy: @a copies memref<4xf32> to memref<2x2xf32>}}
    launch.copy @w to @x
  }
}

// -----

launch.program @p rank 0 {
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [] {
    // expected-error@+1 {{launch.call: @a calls @k, which is no kernel}}
    launch.call @k []
  }
}

// -----

launch.program @p rank 0 {
  launch.kernel @k target "cpu" () {
  }
  launch.actor @a on <0, cuda:0> stream 0 reads [] writes [] {
    // expected-error@+1 {{launch.call: @a on cuda calls @k for cpu}}
    launch.call @k []
  }
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.kernel @k target "cpu" (%x: memref<4xf32>, %y: memref<4xf32>) {
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{launch.call: @a calls @k with (memref<4xf32>), but it takes (memref<4xf32>, memref<4xf32>)}}
    launch.call @k [@x]
  }
}

// -----

// An actor works on its own registers.

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [] {
    // expected-error@+1 {{launch.feed: @a works on @x, which is neither a variable nor a data register it reads or writes}}
    launch.feed "x" to @x
  }
}

// -----

// A control register holds nothing to fetch.

launch.program @p rank 0 {
  launch.control @k slots 1 initial 1
  launch.actor @a on <0, cpu:0> stream 0 reads [@k] writes [@k] {
    // expected-error@+1 {{launch.fetch: @a works on @k, which is neither a variable nor a data register it reads or writes}}
    launch.fetch "y" from @k
  }
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [] {
    // expected-error@+1 {{launch.fetch: @a works on @c, which is neither a variable nor a data register it reads or writes}}
    launch.fetch "y" from @c
  }
}

// -----

// A kernel reaches the memory of its own kind of device only.

launch.program @p rank 0 {
  launch.chunk @c on <0, device cuda:0> size 64
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.kernel @k target "cpu" (%x: memref<4xf32>) {
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{launch.call: @a works on cpu with @x, which lies in the memory of cuda}}
    launch.call @k [@x]
  }
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, pinned cuda:0> size 64
  launch.variable @w in @c at 0 init <zeros> : memref<4xf32>
  launch.kernel @k target "cuda" (%x: memref<4xf32>) {
  }
  launch.actor @a on <0, cuda:0> stream 0 reads [] writes [] {
    // expected-error@+1 {{launch.call: @a works on cuda with @w, which lies in the memory of cpu}}
    launch.call @k [@w]
  }
}

// -----

// It works in the memory of its own rank.

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.kernel @k target "cpu" (%x: memref<4xf32>) {
  }
  launch.actor @a on <1, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{launch.call: @a works on rank 1 with @x, which lies on rank 0}}
    launch.call @k [@x]
  }
}

// -----

// What the caller gives and takes lies in the memory of the host.

launch.program @p rank 0 {
  launch.chunk @c on <0, device cuda:0> size 64
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{launch.feed: @a works on cpu with @x, which lies in the memory of cuda}}
    launch.feed "x" to @x
  }
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, device cuda:0> size 64
  launch.variable @w in @c at 0 init <zeros> : memref<4xf32>
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [] {
    // expected-error@+1 {{launch.fetch: @a works on cpu with @w, which lies in the memory of cuda}}
    launch.fetch "w" from @w
  }
}

// -----

// expected-error@+2 {{launch.chunk: a memory report gives the bytes of bound, peak, sum, variables, got {peak = 64 : i64}}}
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64 {memory = {peak = 64 : i64}}
}

// -----

// expected-error@+2 {{launch.chunk: a memory report gives the bytes of bound, peak, sum, variables, got 64 : i64}}
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64 {memory = 64}
}

// -----

// expected-error@+2 {{launch.kernel: a cost gives bytes, flops, op of a kernel, got {flops = 2 : i64}}}
launch.program @p rank 0 {
  launch.kernel @k target "cpu" () attributes {cost = {flops = 2}} {
  }
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 128
  // expected-error@+1 {{launch.register: an interface has one slot, got 2}}
  launch.register @x in @c at 0 slots 2 interface "x" : memref<4xf32>
}

// -----

launch.program @p rank 0 {
  launch.actor @a job "train" on <0, cpu:0> stream 0 reads [] writes [] { }
  // expected-error@+1 {{launch.actor: @b belongs to no job, but others do}}
  launch.actor @b on <0, cpu:0> stream 0 reads [] writes [] { }
}

// -----

launch.program @p rank 0 {
  launch.control @k slots 1
  launch.actor @a job "train" on <0, cpu:0> stream 0 reads [] writes [@k] { }
  // expected-error@+1 {{launch.actor: @b of job 'eval' reads @k of job 'train'}}
  launch.actor @b job "eval" on <0, cpu:0> stream 0 reads [@k] writes [] { }
}

// -----

// expected-error@+1 {{launch.program: no actor belongs to job 'eval'}}
launch.program @p rank 0 exclusive [["train", "eval"]] {
  launch.actor @a job "train" on <0, cpu:0> stream 0 reads [] writes [] { }
}

// -----

// expected-error@+1 {{launch.program: job 'train' is in two exclusive groups}}
launch.program @p rank 0 exclusive [["train", "eval"], ["train"]] {
  launch.actor @a job "train" on <0, cpu:0> stream 0 reads [] writes [] { }
  launch.actor @b job "eval" on <0, cpu:0> stream 0 reads [] writes [] { }
}

// -----

// Only what other jobs write can be released, by an actor that reads it.

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  // expected-error@+1 {{launch.release: @b releases @x, which is no interface that it reads}}
  launch.actor @b on <0, cpu:0> stream 0 reads [@x] writes [] { launch.release @x }
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.register @x in @c at 0 slots 1 interface "x" : memref<4xf32>
  // expected-error@+1 {{launch.release: @a releases @x, which is no interface that it reads}}
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] { launch.release @x }
}

// -----

// expected-error@+1 {{panels need elements, got shape [1, 0, 4]}}
"test.op"() {p = #launch.panels<[1, 0, 4], axis 1, width 1, depth 1>} : () -> ()

// -----

// expected-error@+1 {{panels are cut along axis 1 or 2, got 0}}
"test.op"() {p = #launch.panels<[1, 8, 4], axis 0, width 1, depth 1>} : () -> ()

// -----

// expected-error@+1 {{the width of panels is 1 to 8, got 9}}
"test.op"() {p = #launch.panels<[1, 8, 4], axis 1, width 9, depth 4>} : () -> ()

// -----

// expected-error@+1 {{a group has 1, 2 or 4 places, got 3}}
"test.op"() {p = #launch.panels<[1, 6, 4], axis 2, width 4, depth 3, group 3>} : () -> ()

// -----

// expected-error@+1 {{panels of groups have 4 places at once, got depth 4 of 6}}
"test.op"() {p = #launch.panels<[1, 6, 4], axis 2, width 4, depth 4, group 4>} : () -> ()

// -----

// expected-error@+1 {{the depth of panels is 1 to 8, got 0}}
"test.op"() {p = #launch.panels<[1, 8, 4], axis 2, width 4, depth 0>} : () -> ()

// -----

// expected-error@+1 {{panels are of 3 dimensions, got 2}}
"test.op"() {p = #launch.panels<[8, 4], axis 1, width 4, depth 4>} : () -> ()

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 256
  // expected-error@+1 {{launch.variable: #launch.panels<[1, 8, 4], axis 1, width 4, depth 4> has 32 elements, not the 16 of shape [4, 4]}}
  launch.variable @w in @c at 0 init <zeros> panels <[1, 8, 4], axis 1, width 4, depth 4> : memref<4x4xf32>
}

// -----

// expected-error@+1 {{launch.kernel: #launch.panels<[1, 8, 4], axis 1, width 4, depth 4> has 32 elements, not the 4 of shape [4]}}
launch.kernel @k target "cpu" (%a: memref<4xf32>) attributes {panels = [#launch.panels<[1, 8, 4], axis 1, width 4, depth 4>]} { }

// -----

// expected-error@+1 {{launch.kernel: a kernel tells panels or unit for each of 1 arguments, got [unit, unit]}}
launch.kernel @k target "cpu" (%a: memref<4xf32>) attributes {panels = [unit, unit]} { }

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.variable @w in @c at 0 init <zeros> panels <[1, 8, 4], axis 1, width 4, depth 4> : memref<8x4xf32>
  launch.kernel @k target "cpu" (%a: memref<8x4xf32>) { }
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [] {
    // expected-error@+1 {{launch.call: @a takes @w in the usual order, but it lies in #launch.panels<[1, 8, 4], axis 1, width 4, depth 4>}}
    launch.call @k [@w]
  }
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.variable @w in @c at 0 init <zeros> : memref<8x4xf32>
  launch.kernel @k target "cpu" (%a: memref<8x4xf32>) attributes {panels = [#launch.panels<[1, 8, 4], axis 1, width 4, depth 4>]} { }
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [] {
    // expected-error@+1 {{launch.call: @a takes @w in #launch.panels<[1, 8, 4], axis 1, width 4, depth 4>, but it lies in the usual order}}
    launch.call @k [@w]
  }
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.variable @w in @c at 0 init <zeros> panels <[1, 8, 4], axis 1, width 4, depth 4> : memref<8x4xf32>
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [] {
    // expected-error@+1 {{launch.fetch: @a takes @w in the usual order, but it lies in #launch.panels<[1, 8, 4], axis 1, width 4, depth 4>}}
    launch.fetch "w" from @w
  }
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.variable @w in @c at 0 init <zeros> panels <[1, 8, 4], axis 1, width 4, depth 4> : memref<8x4xf32>
  launch.register @r in @c at 128 slots 1 : memref<8x4xf32>
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@r] {
    // expected-error@+1 {{launch.copy: @a takes @w in the usual order, but it lies in #launch.panels<[1, 8, 4], axis 1, width 4, depth 4>}}
    launch.copy @w to @r
  }
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  // expected-error@+1 {{launch.variable: a value is not made of weights for Winograd}}
  launch.variable @w in @c at 0 winograd [1, 1, 3, 3] value dense<0.0> : tensor<36x1x1xf32> : memref<36x1x1xf32>
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  // expected-error@+1 {{launch.variable: weights of shape [2, 1, 3, 3] do not become [36, 1, 2] for Winograd}}
  launch.variable @w in @c at 0 init <zeros> winograd [2, 1, 3, 3] : memref<36x1x2xf32>
}

// -----

// One actor takes, or hands out, by a name; in a program of several jobs, one of a job.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.register @y in @c at 16 slots 1 : memref<4xf32>
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @b on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    // expected-error@+1 {{launch.feed: two actors serve the port 'x'}}
    launch.feed "x" to @y
  }
}
