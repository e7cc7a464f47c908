// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// A step has its bytes inside of its source, in the last iteration, too.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.loop 4 {
      // expected-error@+1 {{launch.subview: @s lies at bytes 28 to 36 of @x in iteration 3, which has 32}}
      launch.subview @s of @x at 4 step 8 : memref<2xf32>
    }
  }
}

// -----

// Nor does it lie before it.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.loop 4 {
      // expected-error@+1 {{launch.subview: @s lies at bytes -8 to 0 of @x in iteration 3, which has 32}}
      launch.subview @s of @x at 16 step -8 : memref<2xf32>
    }
  }
}

// -----

// Without a step there is no iteration to name.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.subview: @s lies at bytes 32 to 40 of @x, which has 32}}
    launch.subview @s of @x at 32 : memref<2xf32>
  }
}

// -----

// There are no iterations outside of a loop.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.subview: @s has a step of 8 bytes, but is in no loop}}
    launch.subview @s of @x at 0 step 8 : memref<2xf32>
  }
}

// -----

// It starts at an element.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.subview: @s starts 2 bytes into @x, which is no multiple of 4}}
    launch.subview @s of @x at 2 : memref<2xf32>
  }
}

// -----

// Each of them does.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.loop 4 {
      // expected-error@+1 {{launch.subview: @s starts 2 bytes into @x, which is no multiple of 4}}
      launch.subview @s of @x at 0 step 2 : memref<2xf32>
    }
  }
}

// -----

// It is of what the actor uses.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.subview: @a works on @q, which is neither a variable nor a data register it reads or writes}}
    launch.subview @s of @q at 0 : memref<2xf32>
  }
}

// -----

// A local name is known after the step that declares it.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.copy: @a works on @s, which is neither a variable nor a data register it reads or writes}}
    launch.copy @s to @b
    launch.subview @s of @x at 0 : memref<32xi8>
  }
}

// -----

// And in its block alone.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.loop 2 {
      launch.subview @s of @x at 0 : memref<32xi8>
    }
    // expected-error@+1 {{launch.copy: @a works on @s, which is neither a variable nor a data register it reads or writes}}
    launch.copy @s to @b
  }
}

// -----

// It is the only one of its name.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.subview: two ops are named @x}}
    launch.subview @x of @b at 0 : memref<2xf32>
  }
}

// -----

// Also among those of other blocks.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.loop 2 {
      launch.subview @s of @x at 0 : memref<32xi8>
    }
    launch.loop 2 {
      // expected-error@+1 {{launch.carry: two ops are named @s}}
      launch.carry @r to @s in [@b at 0] : memref<f32>
    }
  }
}

// -----

// Panels are taken by kernels alone.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.subview: @a takes @packed in the usual order, but it lies in #launch.panels}}
    launch.subview @s of @packed at 0 : memref<2xf32>
  }
}

// -----

// A memref is dense.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.subview: expected a dense memref of static shape, got memref<2x?xf32>}}
    launch.subview @s of @x at 0 : memref<2x?xf32>
  }
}

// -----

// Copies and calls see the type of a local name.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.subview @s of @x at 0 : memref<2xf32>
    // expected-error@+1 {{launch.copy: @a copies memref<2xf32> to memref<32xi8>}}
    launch.copy @s to @b
  }
}

// -----

// A value is carried by a loop.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.carry: a value is carried by a loop, but this is in none}}
    launch.carry @r to @s in [@b at 0] : memref<f32>
  }
}

// -----

// A branch in a loop is none.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.subview @c1 of @b at 0 : memref<i1>
    launch.loop 2 {
      launch.if @c1 {
        // expected-error@+1 {{launch.carry: a value is carried by a loop, but this is in none}}
        launch.carry @r to @s in [@b at 0] : memref<f32>
      } else { }
    }
  }
}

// -----

// It has one place or two.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.loop 2 {
      // expected-error@+1 {{launch.carry: a carried value has one place or two, got 3}}
      launch.carry @r to @s in [@b at 0, @b at 4, @b at 8] : memref<f32>
    }
  }
}

// -----

// Which are apart.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.loop 2 {
      // expected-error@+1 {{launch.carry: the two places of a carried value share bytes}}
      launch.carry @r to @s in [@b at 0, @b at 4] : memref<2xf32>
    }
  }
}

// -----

// And inside of what they are of.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.loop 2 {
      // expected-error@+1 {{launch.carry: @r lies at bytes 28 to 36 of @b, which has 32}}
      launch.carry @r to @s in [@b at 0, @b at 28] : memref<2xf32>
    }
  }
}

// -----

// They start at elements.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.loop 2 {
      // expected-error@+1 {{launch.carry: @r starts 2 bytes into @b, which is no multiple of 4}}
      launch.carry @r to @s in [@b at 2] : memref<f32>
    }
  }
}

// -----

// Iterations have numbers.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.number: only iterations have a number, but this is in no loop}}
    launch.number @n
  }
}

// -----

// Which are i64.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.loop 2 {
      // expected-error@+1 {{launch.number: @a numbers iterations in @b, which is memref<32xi8>, not memref<i64>}}
      launch.number @b
    }
  }
}

// -----

// A count is one, too.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.loop: @a counts by @x, which is memref<4x2xf32>, not memref<i64>}}
    launch.loop up to 4 count @x { }
  }
}

// -----

// As is the number of iterations made.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.loop: @a counts in @b, which is memref<32xi8>, not memref<i64>}}
    launch.loop up to 4 count @n made @b { }
  }
}

// -----

// A condition is one i1.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.loop: @a repeats while @n, which is memref<i64>, not memref<i1>}}
    launch.loop up to 4 while @n { }
  }
}

// -----

// It is known before the loop, or a carried value.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.loop: @a works on @s, which is neither a variable nor a data register it reads or writes}}
    launch.loop up to 4 while @s {
      launch.subview @s of @b at 0 step 1 : memref<i1>
    }
  }
}

// -----

// That of the iteration before.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.loop: @a works on @s, which is neither a variable nor a data register it reads or writes}}
    launch.loop up to 4 while @s {
      launch.carry @r to @s in [@b at 0] : memref<i1>
    }
  }
}

// -----

// The condition of a branch is one, too.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.if: @a tests @n, which is memref<i64>, not memref<i1>}}
    launch.if @n { } else { }
  }
}

// -----

// A loop that runs backward knows how often.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.subview @c1 of @b at 0 : memref<i1>
    // expected-error@+1 {{launch.loop: a loop that runs backward needs its count before it starts}}
    launch.loop up to 4 while @c1 backward { }
  }
}

// -----

// Bytes of a loop go to one caller at a time.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.loop 2 {
      // expected-error@+1 {{launch.feed is no step of a loop or condition}}
      launch.feed "y" to @b
    }
  }
}

// -----

// It is done all or not at all.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.subview @s of @x at 0 : memref<32xi8>
    launch.loop 2 {
      // expected-error@+1 {{launch.copy: a step of a loop or condition is done whenever that is, got 'when'}}
      launch.copy @s to @b {when = "first"}
    }
  }
}

// -----

// Only steps are done again.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    launch.loop 2 {
      // expected-error@+1 {{launch.control is no step of an actor}}
      launch.control @k slots 1
    }
  }
}

// -----

// A loop with a maximum can fail.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  // expected-error@+1 {{launch.actor: @a has a loop with a maximum, which can fail, so it has to say can_fail}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@x, @n] writes [@b] {
    launch.loop up to 4 count @n { }
  }
}

// -----

// As can a kernel in one.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.kernel @check target "cpu" (%o: memref<i1>) {
    %z = memref.load %o[] : memref<i1>
    cf.assert %z, "no"
  }
  // expected-error@+1 {{launch.actor: @a calls @check, which can fail, so it has to say can_fail}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@x, @n] writes [@b] {
    launch.subview @s of @b at 0 : memref<i1>
    launch.loop 4 {
      launch.call @check [@s]
    }
  }
}

// -----

// The text of a maximum says by what it is one.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{expected `count` or `while` after a maximum}}
    launch.loop up to 4 { }
  }
}

// -----

// In any form.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.variable @w in @c at 512 init <ones> : memref<4x2xf32>
  launch.variable @packed in @c at 640 init <ones> panels <[1, 4, 2], axis 1, width 2, depth 2> : memref<4x2xf32>
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @n in @c at 64 slots 1 : memref<i64>
  launch.register @b in @c at 128 slots 1 : memref<32xi8>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @n] {
    launch.feed "x" to @x
    launch.feed "n" to @n
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @n] writes [@b] {
    // expected-error@+1 {{launch.loop: only a loop with a count or a condition says how many iterations it made}}
    "launch.loop"() <{times = 4 : i64, made = @n}> ({
    ^bb0:
    }) : () -> ()
  }
}

// -----

// On a device, too, local names start where an element may.
launch.program @p rank 0 {
  launch.chunk @c on <0, device cuda:0> size 1024
  launch.register @x in @c at 0 slots 1 : memref<4x3xf32>
  launch.actor @a on <0, cuda:0> stream 0 reads [] writes [@x] {
    launch.loop 3 {
      launch.subview @r of @x at 0 step 12 : memref<3xf32>
      // expected-error@+1 {{launch.subview: @s starts 10 bytes into @x, which is no multiple of 4}}
      launch.subview @s of @x at 0 step 10 : memref<3xf32>
    }
  }
}

// -----

// The bytes of a local name lie where those of its source do.
launch.program @p rank 0 {
  launch.chunk @c on <0, device cuda:0> size 1024
  launch.register @x in @c at 0 slots 1 : memref<f32>
  launch.kernel @k target "cpu" (%o: memref<f32>) { }
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.subview @s of @x at 0 : memref<f32>
    // expected-error@+1 {{launch.call: @a works on cpu with @x, which lies in the memory of cuda}}
    launch.call @k [@s]
  }
}
