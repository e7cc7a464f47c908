// RUN: not penstock-opt %s -p 'launch-form-waves{most-ns=0}' 2>&1 | filecheck %s
// CHECK: launch-form-waves: most_ns should be at least 1, got 0
