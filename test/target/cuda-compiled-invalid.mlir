// RUN: not penstock-opt %s -t cuda-ptx 2>&1 | filecheck %s
// RUN: not penstock-opt %s -t 'cuda-sass{arch=sm_75}' 2>&1 | filecheck %s --check-prefix OLD
// RUN: not penstock-opt %s -t 'cuda-resources{arch=hopper}' 2>&1 | filecheck %s --check-prefix NAME
// RUN: not penstock-opt %s -t 'cuda-resources{format=yaml}' 2>&1 | filecheck %s --check-prefix FORMAT

// CHECK: error: target cuda-ptx: there are no kernels for cuda
// OLD: error: target 'cuda-sass': kernels need at least sm_80, got sm_75
// FORMAT: error: target 'cuda-resources': unknown format 'yaml', known are: text, json (its options: arch, format)
// NAME: error: target 'cuda-resources': an architecture is sm_ and a number, as sm_90, got 'hopper'
launch.kernel @none target "cpu" (%a: memref<4xf32>, %o: memref<4xf32>) {
  "memref.copy"(%a, %o) : (memref<4xf32>, memref<4xf32>) -> ()
}
