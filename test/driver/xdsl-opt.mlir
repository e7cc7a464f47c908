// A plain xdsl-opt has Penstock's targets and passes.
// RUN: xdsl-opt --help | filecheck %s --check-prefix=HELP
// RUN: xdsl-opt %s -p op-infer-shapes | filecheck %s

// HELP: numba
// CHECK: builtin.module
builtin.module {}
