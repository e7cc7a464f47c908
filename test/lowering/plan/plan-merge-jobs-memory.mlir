// RUN: penstock-opt %s -p regst-mark-interfaces,regst-plan-memory,plan-merge-jobs,verify-plan --split-input-file | filecheck %s --check-prefixes=ALL,PARALLEL
// RUN: penstock-opt %s -p 'regst-mark-interfaces,regst-plan-memory,plan-merge-jobs{strategy=memory},verify-plan' --split-input-file | filecheck %s --check-prefixes=ALL,MEMORY
// RUN: penstock-opt %s -p 'regst-mark-interfaces,regst-plan-memory,plan-merge-jobs{strategy=custom groups="eval,test;show,test"},verify-plan' --split-input-file | filecheck %s --check-prefixes=ALL,CUSTOM

// What training needs 500 MiB for and evaluation 300 takes 500 if they never run at the
// same time, and 800 if they may. They never do if they share a name, as "w" here, where
// nothing else is asked for; or always, or as it is asked. Jobs of the system always may.

!m500 = !regst.data<tensor<131072000xf32>>
!m300 = !regst.data<tensor<78643200xf32>>
!m100 = !regst.data<tensor<26214400xf32>>
!w = !regst.data<tensor<16xf32>>

// Of the device's memory the one chunk of 64 bytes is for "w". Of all others "train" and
// "eval" make up 500 MiB, "test" 300, "show" 100 and "push" 100.

// ALL-LABEL:    plan.plan @main
// PARALLEL-SAME:  exclusive {{\[\["train", "eval"\]\]}}
// MEMORY-SAME:    exclusive {{\[\["train", "eval", "test", "show"\]\]}}
// CUSTOM-SAME:    exclusive {{\[\["train", "eval"\], \["test", "show"\]\]}}
// ALL-SAME:       attributes {jobs = {train = {}, eval = {}, test = {}, show = {}, push = {system}, idle = {}}}
// ALL-NEXT:     %[[W:.+]] = regst.chunk on <0, device cuda:0> size 64
// ALL-NEXT:     regst.block in %[[W]] at 0 size 64

// PARALLEL-NEXT: %[[A:.+]] = regst.chunk on <0, device cuda:0> size 524288000
// PARALLEL-NEXT: regst.block in %[[A]] at 0 size 524288000
// PARALLEL-NEXT: regst.block in %[[A]] at 0 size 314572800
// PARALLEL-NEXT: %[[B:.+]] = regst.chunk on <0, device cuda:0> size 314572800
// PARALLEL-NEXT: regst.block in %[[B]] at 0 size 314572800
// PARALLEL-NEXT: %[[C:.+]] = regst.chunk on <0, device cuda:0> size 104857600
// PARALLEL-NEXT: regst.block in %[[C]] at 0 size 104857600

// MEMORY-NEXT: %[[A:.+]] = regst.chunk on <0, device cuda:0> size 524288000
// MEMORY-NEXT: regst.block in %[[A]] at 0 size 524288000
// MEMORY-NEXT: regst.block in %[[A]] at 0 size 314572800
// MEMORY-NEXT: regst.block in %[[A]] at 0 size 314572800
// MEMORY-NEXT: regst.block in %[[A]] at 0 size 104857600

// "eval" never runs with "test" here either, but "train" may, so that "test" cannot join
// the two of them; "show" can join "test".

// CUSTOM-NEXT: %[[A:.+]] = regst.chunk on <0, device cuda:0> size 524288000
// CUSTOM-NEXT: regst.block in %[[A]] at 0 size 524288000
// CUSTOM-NEXT: regst.block in %[[A]] at 0 size 314572800
// CUSTOM-NEXT: %[[B:.+]] = regst.chunk on <0, device cuda:0> size 314572800
// CUSTOM-NEXT: regst.block in %[[B]] at 0 size 314572800
// CUSTOM-NEXT: regst.block in %[[B]] at 0 size 104857600

// ALL-NEXT:    %[[PUSH:.+]] = regst.chunk on <0, device cuda:0> size 104857600
// ALL-NEXT:    regst.block in %[[PUSH]] at 0 size 104857600
// ALL-NOT:     regst.chunk
plan.plan @train {
  %w = regst.register "w" slots 1 on <0, device cuda:0> : !w
  %a = regst.register "a" slots 1 on <0, device cuda:0> : !m500
  plan.task "w" on <0, cuda:0> stream <compute, 0> ins() outs(%w : !w) {
    %v = job.variable "w" init <zeros> : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "a" on <0, cuda:0> stream <compute, 0> ins(%w : !w) outs(%a : !m500) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"(%0) : (tensor<16xf32>) -> tensor<131072000xf32>
    plan.yield %v : tensor<131072000xf32>
  }
}

plan.plan @eval {
  %w = regst.register "w" slots 1 on <0, device cuda:0> : !w
  %a = regst.register "a" slots 1 on <0, device cuda:0> : !m300
  plan.task "w" on <0, cuda:0> stream <compute, 0> ins() outs(%w : !w) {
    %v = job.variable "w" init <zeros> : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "a" on <0, cuda:0> stream <compute, 0> ins(%w : !w) outs(%a : !m300) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"(%0) : (tensor<16xf32>) -> tensor<78643200xf32>
    plan.yield %v : tensor<78643200xf32>
  }
}

plan.plan @test {
  %a = regst.register "a" slots 1 on <0, device cuda:0> : !m300
  plan.task "a" on <0, cuda:0> stream <compute, 0> ins() outs(%a : !m300) {
    %v = "test.op"() : () -> tensor<78643200xf32>
    plan.yield %v : tensor<78643200xf32>
  }
}

plan.plan @show {
  %a = regst.register "a" slots 1 on <0, device cuda:0> : !m100
  plan.task "a" on <0, cuda:0> stream <compute, 0> ins() outs(%a : !m100) {
    %v = "test.op"() : () -> tensor<26214400xf32>
    plan.yield %v : tensor<26214400xf32>
  }
}

plan.plan @push attributes {system} {
  %a = regst.register "a" slots 1 on <0, device cuda:0> : !m100
  plan.task "a" on <0, cuda:0> stream <compute, 0> ins() outs(%a : !m100) {
    %v = "test.op"() : () -> tensor<26214400xf32>
    plan.yield %v : tensor<26214400xf32>
  }
}

// A job without tasks needs nothing, and excludes nobody.

plan.plan @idle {
  %c = regst.chunk on <0, device cuda:0> size 512
}
