// RUN: penstock-opt %s -p 'verify-memory{limits="host=1K"}' --verify-diagnostics

// A chunk of 4 KiB is too much for a limit of 1 KiB.

// EXAMPLE-BEFORE
// expected-error@+1 {{verify-memory: memory host of rank 0 takes 4096 bytes, but the limit is 1024; most of it is for 'x' 4096}}
plan.plan @example {
  %c = regst.chunk on <0, host> size 4096
  %b = regst.block in %c at 0 size 4096
  %x = regst.register "x" in %b at 0 slots 1 on <0, host> : !regst.data<tensor<1024xf32>>
}
// EXAMPLE-END
