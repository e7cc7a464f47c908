// RUN: penstock-opt %s --verify-diagnostics

// expected-error@+1 {{launch.kernel: the source of a kernel is a text, got 5 : i64}}
launch.kernel @given target "cpu" (%o: memref<4xf32>) attributes {source = 5 : i64} {
}
