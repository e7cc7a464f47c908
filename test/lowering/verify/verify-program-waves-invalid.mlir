// RUN: penstock-opt %s -p verify-program --verify-diagnostics --split-input-file

!x = memref<16xf32>

// Members that use nothing of each other are a wave, whoever has formed it.

launch.program @good rank 0 {
  launch.chunk @c0 on <0, host> size 512
  launch.register @rx in @c0 at 0 slots 1 : !x
  launch.register @ra in @c0 at 64 slots 1 : !x
  launch.register @rb in @c0 at 128 slots 1 : !x
  launch.register @rc in @c0 at 192 slots 1 : !x
  launch.register @rd in @c0 at 256 slots 1 : !x
  launch.kernel @wave target "cpu" (%i: !x, %o: !x, %j: !x, %p: !x) attributes {members = array<i64: 2, 2>} {
    "memref.copy"(%i, %o) : (!x, !x) -> ()
    "memref.copy"(%j, %p) : (!x, !x) -> ()
  }
  launch.actor @feed on <0, cpu:0> stream 1 reads [] writes [@rx] {
    launch.feed "x" to @rx
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@rx] writes [@ra, @rb] {
    launch.call @wave [@rx, @ra, @rx, @rb]
  }
}

// -----

!x = memref<16xf32>

launch.program @reads rank 0 {
  launch.chunk @c0 on <0, host> size 512
  launch.register @rx in @c0 at 0 slots 1 : !x
  launch.register @ra in @c0 at 64 slots 1 : !x
  launch.register @rb in @c0 at 128 slots 1 : !x
  launch.register @rc in @c0 at 192 slots 1 : !x
  launch.register @rd in @c0 at 256 slots 1 : !x
  launch.kernel @wave target "cpu" (%i: !x, %o: !x, %j: !x, %p: !x) attributes {members = array<i64: 2, 2>} {
    "memref.copy"(%i, %o) : (!x, !x) -> ()
    "memref.copy"(%j, %p) : (!x, !x) -> ()
  }
  launch.actor @feed on <0, cpu:0> stream 1 reads [] writes [@rx] {
    launch.feed "x" to @rx
  }
  // expected-error@+2 {{verify-program: member 1 of wave @wave shares bytes with one before it in @a, which one of them writes}}
  // expected-error@+1 {{verify-program: @a reads @ra before it writes it, and 64 of its bytes are views of nothing}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@rx] writes [@ra, @rb] {
    // expected-error@+1 {{verify-program: @a gives @ra twice to a step that writes it}}
    launch.call @wave [@rx, @ra, @ra, @rb]
  }
}

// -----

!x = memref<16xf32>

launch.program @counts rank 0 {
  launch.chunk @c0 on <0, host> size 512
  launch.register @rx in @c0 at 0 slots 1 : !x
  launch.register @ra in @c0 at 64 slots 1 : !x
  launch.register @rb in @c0 at 128 slots 1 : !x
  launch.register @rc in @c0 at 192 slots 1 : !x
  launch.register @rd in @c0 at 256 slots 1 : !x
  // expected-error@+1 {{verify-program: members of a wave take its 4 arguments, got array<i64: 2, 3>}}
  launch.kernel @wave target "cpu" (%i: !x, %o: !x, %j: !x, %p: !x) attributes {members = array<i64: 2, 3>} {
    "memref.copy"(%i, %o) : (!x, !x) -> ()
    "memref.copy"(%j, %p) : (!x, !x) -> ()
  }
  launch.actor @feed on <0, cpu:0> stream 1 reads [] writes [@rx] {
    launch.feed "x" to @rx
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@rx] writes [@ra, @rb] {
    launch.call @wave [@rx, @ra, @rx, @rb]
  }
}
