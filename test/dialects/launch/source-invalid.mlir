// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{launch.kernel: the source of a kernel is a text, got 5 : i64}}
launch.kernel @given target "cpu" (%o: memref<4xf32>) attributes {source = 5 : i64} {
}

// -----

// A source may return any code, and a kernel that checks something does so where that fails.

launch.program @hidden rank 0 {
  launch.kernel @given target "cpu" () attributes {source = "pass"} {
  }
  // expected-error@+1 {{launch.actor: @a calls @given, which can fail, so it has to say can_fail}}
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [] { launch.call @given [] }
}

// -----

// expected-error@+1 {{launch.kernel: the author of a source is a text, got 5 : i64}}
launch.kernel @given target "cpu" (%o: memref<4xf32>) attributes {author = 5 : i64, source = "pass"} {
}
