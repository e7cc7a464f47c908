// The passes of a pipeline are printed with all of their options.
// RUN: penstock-opt --pipeline cpu --dump-pipeline -o - | filecheck %s --check-prefix=DUMP
// RUN: penstock-opt --pipeline cpu --dump-pass-pipeline | filecheck %s --check-prefix=DUMP

// DUMP:      op-infer-shapes,
// DUMP:      op-unroll-loops{up-to=2 device="cpu"},
// DUMP-NEXT: op-select-branches{up-to=4096 device="cpu"},
// DUMP-NEXT: job-clean,
// DUMP:      op-widen-sums{device="cpu" pairs},
// DUMP:      plan-assign-streams{streams=1 policy="naive" machine},
// DUMP:      regst-plan-memory{algorithm="best" guard="bounded" steps budget-ms},
// DUMP:      launch-schedule-tiles{processors={{[0-9]+}}},
// DUMP-NEXT: convert-kernel-to-loops{only only-unscheduled=true}{{$}}

// A pipeline has options.
// RUN: penstock-opt --pipeline 'cpu{threads=4 winograd=true}' --dump-pipeline | filecheck %s --check-prefix=OPTIONS

// OPTIONS: op-use-winograd
// OPTIONS: plan-assign-streams{streams=4

// What is put in beside a pass, or takes its place, runs there, for each time that the
// pipeline has it, or for one.
// RUN: penstock-opt --pipeline 'cpu, canonicalize' --insert-after cse=dce --insert-before 'job-clean#2=verify-jobs, dce' --replace op-fuse-rows=cse --skip canonicalize#1 --dump-pipeline | filecheck %s --check-prefix=EDITS

// EDITS-LABEL: op-infer-shapes
// EDITS:       op-unroll-loops{up-to=2 device="cpu"},
// EDITS-NEXT:  op-select-branches{up-to=4096 device="cpu"},
// EDITS-NEXT:  {{^}}job-clean,
// EDITS:       op-split-pads
// EDITS-NEXT:  verify-jobs,
// EDITS-NEXT:  dce,
// EDITS-NEXT:  job-clean,
// EDITS:       op-fuse-epilogues,
// EDITS-NEXT:  cse,
// EDITS-NEXT:  {{^}}job-clean,
// EDITS:       verify-program,
// EDITS-NEXT:  cse,
// EDITS-NEXT:  dce,
// EDITS:       launch-schedule-tiles
// EDITS:      {{^}}canonicalize{{$}}

// Edits are made in the order of their flags: each sees what those before it left.
// RUN: penstock-opt --pipeline cse --insert-after cse=dce --skip cse --dump-pipeline | filecheck %s --check-prefix=INSERTED
// RUN: not penstock-opt --pipeline cse --skip cse --insert-after cse=dce --dump-pipeline 2>&1 | filecheck %s --check-prefix=SKIPPED

// INSERTED: {{^}}dce{{$}}
// SKIPPED:  error: insert-after cse=dce: the pipeline has no pass 'cse' (--dump-pipeline prints its passes)

// An option of a pass is set for each time that the pipeline has it, or for one.
// RUN: penstock-opt %s --pipeline cpu --set regst-plan-memory.algorithm=size-first --set regst-plan-memory.guard=none --dump-pipeline | filecheck %s --check-prefix=SET
// RUN: penstock-opt %s --pipeline 'plan-order-tasks,cse,plan-order-tasks' --set plan-order-tasks.budget=5 --set plan-order-tasks#2.in_place=true --dump-pipeline | filecheck %s --check-prefix=SET-ONE
// RUN: penstock-opt %s --pipeline cpu --set launch-select-kernels.gpu='an H200' --dump-pipeline | filecheck %s --check-prefix=SET-TEXT

// SET:      regst-plan-memory{algorithm="size-first" guard="none" steps budget-ms}
// SET-ONE:      plan-order-tasks{policy="memory" in-place=false budget=5
// SET-ONE-NEXT: cse
// SET-ONE-NEXT: plan-order-tasks{policy="memory" in-place=true budget=5
// SET-TEXT:     gpu="an H200"

// A pipeline ends at a level, and goes on from there.
// RUN: penstock-opt %s --pipeline cpu --compile-to job -o %t.job.mlir
// RUN: penstock-opt %t.job.mlir --pipeline cpu --compile-to plan -o %t.plan.mlir
// RUN: penstock-opt %t.plan.mlir --pipeline cpu --compile-to memory -o %t.memory.mlir
// RUN: penstock-opt %s --pipeline cpu -o %t.launch
// RUN: penstock-opt %t.memory.mlir --pipeline cpu --compile-to launch | diff - %t.launch
// RUN: penstock-opt %s --pipeline cpu --compile-to source -o %t.source
// RUN: penstock-opt %s --pipeline cpu -t numba | diff - %t.source
// RUN: filecheck %s --check-prefix=JOB --input-file %t.job.mlir
// RUN: filecheck %s --check-prefix=PLAN --input-file %t.plan.mlir
// RUN: filecheck %s --check-prefix=MEMORY --input-file %t.memory.mlir

// JOB:        op.relu
// PLAN:       plan.task "y" on <0, cpu:0> stream <compute, 0> order
// PLAN-NOT:   regst.register
// MEMORY:     regst.register "y/out" in %{{.+}} at
// MEMORY-NOT: launch.program

// A level ends where it did also if the pass that ended it is another one now.
// RUN: penstock-opt --pipeline cpu --insert-before plan-create-registers=cse --replace plan-create-registers=dce --compile-to plan --dump-pipeline | filecheck %s --check-prefix=END

// END:     plan-assign-streams{{.*}},
// END-NEXT: {{^}}cse{{$}}

job.job @relu placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
