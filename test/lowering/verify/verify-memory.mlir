// RUN: penstock-opt %s -p 'verify-memory{limits="host=1K,cuda:1=2K"}' | filecheck %s
// RUN: penstock-opt %s -p 'verify-memory{limits="cuda:1=1T,cuda=0,host=2048M"}' | filecheck %s
// RUN: not penstock-opt %s -p 'verify-memory{limits="host=4G,cdua=4G"}' 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not penstock-opt %s -p 'verify-memory{limits="cuda:0=0,cuda:1=2K"}' 2>&1 | filecheck %s --check-prefix=NUMBER
// RUN: not penstock-opt %s -p 'verify-memory{limits="host=1023,cuda=2047"}' 2>&1 | filecheck %s --check-prefix=SHORT
// RUN: not penstock-opt %s -p 'verify-memory{limits="cuda=4G,cuda:1=2047"}' 2>&1 | filecheck %s --check-prefix=ONE
// RUN: not penstock-opt %s -p 'verify-memory{limits="cuda:1=2047,host=1024"}' 2>&1 | filecheck %s --check-prefix=ONE

// A limit for memory that is not there may be a mistake.

// NAME:   verify-memory: limits: no plan has memory 'cdua', there is cuda:1, host
// NUMBER: verify-memory: limits: no plan has memory 'cuda:0', there is cuda:1, host

// What fits is left as it is: 1024 bytes of the host, in three chunks, and 2048 of device 1.
// Each device may have a limit of its own; memory that is not listed has none.

// CHECK-LABEL: plan.plan @fits

// Of the host, "w" and "b", which share with nobody, are in use all the time. "x" and "y"
// share their bytes with "z": at the fullest moment it is not there, as both are.

// SHORT:     verify-memory: memory host of rank 0 takes 1024 bytes, but the limit is 1023; most of it is for 'w' 320 (task 'w'), 'x' 256 (task 'x'), 'y' 192 (task 'y'), 'b' 128{{$}}
// SHORT:     verify-memory: memory cuda:1 of rank 0 takes 2048 bytes, but the limit is 2047; most of it is for 'd' 1536 (task 'd')
// SHORT-NOT: verify-memory

// ONE-NOT:   memory host
// ONE:       verify-memory: memory cuda:1 of rank 0 takes 2048 bytes, but the limit is 2047
// ONE-NOT:   verify-memory

!w = !regst.data<tensor<80xf32>>
!x = !regst.data<tensor<64xf32>>
!y = !regst.data<tensor<48xf32>>
!z = !regst.data<tensor<60xf32>>

plan.plan @fits {
  %c = regst.chunk on <0, host> size 768
  %weights = regst.block in %c at 0 size 320
  %shared = regst.block in %c at 320 size 448
  %n = regst.chunk on <0, network> size 128
  %kept = regst.block in %n at 0 size 128
  %unused = regst.chunk on <0, pinned cuda:1> size 128
  %g = regst.chunk on <0, device cuda:1> size 2048
  %device = regst.block in %g at 0 size 2048
  %w = regst.register "w" in %weights at 0 slots 1 on <0, host> : !w
  %x = regst.register "x" in %shared at 0 slots 1 on <0, host> : !x
  %y = regst.register "y" in %shared at 256 slots 1 on <0, host> : !y
  %part = regst.register "part" alias %x : !x slots 1 on <0, host> : !y
  %z = regst.register "z" in %shared at 64 slots 1 on <0, host> : !z
  %b = regst.register "b" in %kept at 0 slots 1 on <0, network> : !regst.data<tensor<32xf32>>
  %d = regst.register "d" in %device at 0 slots 3 on <0, device cuda:1> : !regst.data<tensor<128xf32>>
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !w) {
    %v = job.variable "w" init <zeros> : tensor<80xf32>
    plan.yield %v : tensor<80xf32>
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins() outs(%z : !z) signals(%k : !regst.control) {
    %v = job.input "z" : tensor<60xf32>
    plan.yield %v : tensor<60xf32>
  }
  plan.task "out" on <0, cpu:0> stream <compute, 0> ins(%z : !z) {
  ^bb0(%v: tensor<60xf32>):
    job.output "out", %v : tensor<60xf32>
    plan.yield
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) {
    %v = job.input "x" : tensor<64xf32>
    plan.yield %v : tensor<64xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !x) outs(%y : !y) {
  ^bb0(%a: tensor<64xf32>):
    %v = "test.op"(%a) : (tensor<64xf32>) -> tensor<48xf32>
    plan.yield %v : tensor<48xf32>
  }
  plan.task "d" on <0, cuda:1> stream <compute, 0> ins() outs(%d : !regst.data<tensor<128xf32>>) {
    %v = "test.op"() : () -> tensor<128xf32>
    plan.yield %v : tensor<128xf32>
  }
}
