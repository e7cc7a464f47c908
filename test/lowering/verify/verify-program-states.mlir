// RUN: penstock-opt %s -p verify-program --verify-diagnostics --split-input-file | filecheck %s

// What actors write to a state goes to their next acts, in one launch, too: all that use
// it do so in each act before it is written, and not again until then.

!t = memref<16xf32>
!z = memref<32xf32>

// CHECK-LABEL: launch.program @turns
launch.program @turns rank 0 {
  launch.chunk @c on <0, host> size 320
  launch.variable @s in @c at 0 value dense<0.0> : tensor<16xf32> : !t
  launch.register @x in @c at 64 slots 1 : !t
  launch.register @y in @c at 128 slots 1 : !t
  launch.register @z in @c at 192 slots 1 : !z
  launch.control @read slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @use on <0, cpu:0> stream 0 reads [@x] writes [@y, @read] { launch.copy @s to @y }
  launch.actor @z_ on <0, cpu:0> stream 0 reads [@y] writes [@z] every [@z = 2] { launch.copy @y to @z }
  launch.actor @out on <0, cpu:0> stream 0 reads [@z] writes [] { launch.fetch "z" from @z }
  launch.actor @next on <0, cpu:0> stream 0 reads [@x, @read] writes [] { launch.copy @x to @s }
}

// -----

!t = memref<16xf32>
!z = memref<32xf32>

launch.program @late rank 0 {
  launch.chunk @c on <0, host> size 320
  launch.variable @s in @c at 0 value dense<0.0> : tensor<16xf32> : !t
  launch.register @x in @c at 64 slots 1 : !t
  launch.register @y in @c at 128 slots 1 : !t
  launch.register @z in @c at 192 slots 1 : !z
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @use on <0, cpu:0> stream 0 reads [@x] writes [@y] { launch.copy @s to @y }
  launch.actor @z_ on <0, cpu:0> stream 0 reads [@y] writes [@z] every [@z = 2] { launch.copy @y to @z }
  launch.actor @out on <0, cpu:0> stream 0 reads [@z] writes [] { launch.fetch "z" from @z }
  // expected-error@+1 {{verify-program: @use may use state @s after @next has written it}}
  launch.actor @next on <0, cpu:0> stream 0 reads [@x] writes [] { launch.copy @x to @s }
}

// -----

!t = memref<16xf32>
!z = memref<32xf32>

launch.program @again rank 0 {
  launch.chunk @c on <0, host> size 512
  launch.variable @s in @c at 0 value dense<0.0> : tensor<16xf32> : !t
  launch.register @x in @c at 320 slots 2 : !t
  launch.register @y in @c at 128 slots 1 : !t
  launch.register @z in @c at 192 slots 1 : !z
  launch.control @read slots 2
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @use on <0, cpu:0> stream 0 reads [@x] writes [@y, @read] { launch.copy @s to @y }
  launch.actor @z_ on <0, cpu:0> stream 0 reads [@y] writes [@z] every [@z = 2] { launch.copy @y to @z }
  launch.actor @out on <0, cpu:0> stream 0 reads [@z] writes [] { launch.fetch "z" from @z }
  // expected-error@+1 {{verify-program: @use may use state @s again before @next has written it}}
  launch.actor @next on <0, cpu:0> stream 0 reads [@x, @read] writes [] { launch.copy @x to @s }
}

// -----

// All that use a state act equally often.

!t = memref<16xf32>
!z = memref<32xf32>

launch.program @rare rank 0 {
  launch.chunk @c on <0, host> size 320
  launch.variable @s in @c at 0 value dense<0.0> : tensor<16xf32> : !t
  launch.register @x in @c at 64 slots 1 : !t
  launch.register @y in @c at 128 slots 1 : !t
  launch.register @z in @c at 192 slots 1 : !z
  launch.control @read slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @use on <0, cpu:0> stream 0 reads [@x] writes [@y, @read] { launch.copy @s to @y }
  launch.actor @z_ on <0, cpu:0> stream 0 reads [@y] writes [@z] every [@z = 2] { launch.copy @y to @z }
  launch.actor @out on <0, cpu:0> stream 0 reads [@z] writes [] { launch.fetch "s" from @s }
  // expected-error@+1 {{verify-program: @out uses state @s in 1 acts, but @next writes it in 2}}
  launch.actor @next on <0, cpu:0> stream 0 reads [@x, @read] writes [] { launch.copy @x to @s }
}

// -----

// One actor writes a state.

!t = memref<16xf32>
!z = memref<32xf32>

launch.program @two rank 0 {
  launch.chunk @c on <0, host> size 320
  launch.variable @s in @c at 0 value dense<0.0> : tensor<16xf32> : !t
  launch.register @x in @c at 64 slots 1 : !t
  launch.register @y in @c at 128 slots 1 : !t
  launch.register @z in @c at 192 slots 1 : !z
  launch.control @read slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @use on <0, cpu:0> stream 0 reads [@x] writes [@y, @read] { launch.copy @s to @y }
  launch.actor @z_ on <0, cpu:0> stream 0 reads [@y] writes [@z] every [@z = 2] { launch.copy @y to @z }
  launch.actor @next on <0, cpu:0> stream 0 reads [@x, @read] writes [] { launch.copy @x to @s }
  // expected-error@+1 {{verify-program: @next and @also both write state @s}}
  launch.actor @also on <0, cpu:0> stream 0 reads [@y] writes [] { launch.copy @y to @s }
  launch.actor @out on <0, cpu:0> stream 0 reads [@z] writes [] { launch.fetch "z" from @z }
}
