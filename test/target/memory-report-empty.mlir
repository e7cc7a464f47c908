// RUN: penstock-opt %s -t memory-report | filecheck %s

// Where nothing has bytes, nothing is a multiple of the bound.

// CHECK:      plan @nothing: 1 step on 1 stream
// CHECK:      memory <0, host>: activations peak 0 B, 0 B unshared; weights 0 B{{$}}
plan.plan @nothing {
  %c = regst.chunk on <0, host> size 0
  %b = regst.block in %c at 0 size 0
  %x = regst.register "x" in %b at 0 slots 1 on <0, host> : !regst.data<tensor<0xf32>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<0xf32>>) {
    %v = job.input "x" : tensor<0xf32>
    plan.yield %v : tensor<0xf32>
  }
}
