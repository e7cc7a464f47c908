// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{a library has a name}}
"test.op"() {s = #launch.library<"">} : () -> ()

// -----

// expected-error@+1 {{a library computes up to one stage before, got 2}}
"test.op"() {s = #launch.library<"mine", folds 2>} : () -> ()
