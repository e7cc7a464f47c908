// A plain xdsl-opt has Penstock's dialects, passes and targets.
// RUN: xdsl-opt --help | filecheck %s

// CHECK: numba
