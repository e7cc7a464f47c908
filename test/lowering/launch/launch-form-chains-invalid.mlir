// RUN: not penstock-opt %s -p 'launch-form-chains{most-ns=0}' 2>&1 | filecheck %s
// CHECK: launch-form-chains: most_ns should be at least 1, got 0
