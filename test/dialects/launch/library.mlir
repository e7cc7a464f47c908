// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// A schedule names a library, and says if the stage before is part of what it computes.
// CHECK: #launch.library<"cublas">
"test.op"() {s = #launch.library<"cublas">} : () -> ()
// CHECK: #launch.library<"mine">
"test.op"() {s = #launch.library<"mine">} : () -> ()
