// REQUIRES: cuda-compiler
// RUN: penstock-opt %s -t 'cuda-resources{arch=sm_80}' | filecheck %s --check-prefix RESOURCES
// RUN: penstock-opt %s -t 'cuda-resources{arch=sm_80}' --json | filecheck %s --check-prefix JSON
// RUN: penstock-opt %s -t cuda-ptx | filecheck %s --check-prefix PTX

// Without a device, a toolkit or a driver, kernels become machine code, each stage an
// entry of its own name that takes an address an argument and that of the status.

// JSON: {"twice": [{"name": "stage_0", "work": 256, "unit": "threads", "threads": 256, "registers": {{[0-9]+}},

// RESOURCES:      kernel twice
// RESOURCES-NEXT:   stage_0: 256 threads of work, 256 threads a block, {{[0-9]+}} registers, 0 bytes spilled, 0 bytes stack, 0 bytes shared
// RESOURCES-NEXT:   stage_0_plain: 1024 threads of work, 256 threads a block, {{[0-9]+}} registers, 0 bytes spilled, 0 bytes stack, 0 bytes shared
// RESOURCES-NOT:  {{.}}

// PTX:      // kernel twice, stage_0
// PTX:      .target sm_90
// PTX:      .visible .entry stage_0(
// PTX-NEXT:   .param .u64 stage_0_param_0,
// PTX-NEXT:   .param .u64 stage_0_param_1,
// PTX-NEXT:   .param .u64 stage_0_param_2
// PTX-NEXT: )
// PTX-NEXT: .maxntid 256
// PTX:      ld.global.v4.f32
// PTX:      st.global.v4.f32
// PTX:      // kernel twice, stage_0_plain
// PTX:      ld.global.f32
launch.kernel @twice target "cuda" (%a: memref<1024xf32>, %o: memref<1024xf32>) {
  linalg.generic {
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
    iterator_types = ["parallel"]
  } ins(%a : memref<1024xf32>) outs(%o : memref<1024xf32>) {
  ^bb0(%p: f32, %r: f32):
    %s = arith.addf %p, %p : f32
    linalg.yield %s : f32
  }
}
