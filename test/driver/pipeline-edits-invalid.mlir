// Each mistake in the flags about pipelines is a line, with the nearest name.
// RUN: not penstock-opt %s --pipeline cqu 2>&1 | filecheck %s --check-prefix=PIPELINE
// RUN: not penstock-opt %s --pipeline cse,canonicalise 2>&1 | filecheck %s --check-prefix=PASS
// RUN: not penstock-opt %s --pipeline 'cpu{thread=3}' 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not penstock-opt %s --pipeline 'cpu{threads=x}' 2>&1 | filecheck %s --check-prefix=TYPE
// RUN: not penstock-opt %s --pipeline 'cpu{' 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: not penstock-opt %s --pipeline cpu --skip op-fuse-row 2>&1 | filecheck %s --check-prefix=SKIP
// RUN: not penstock-opt %s --pipeline cpu --skip cse#2 2>&1 | filecheck %s --check-prefix=NUMBER
// RUN: not penstock-opt %s --pipeline cpu --insert-after cse=canonicaliz 2>&1 | filecheck %s --check-prefix=INSERT
// RUN: not penstock-opt %s --pipeline cpu --insert-before cse 2>&1 | filecheck %s --check-prefix=FORM
// RUN: not penstock-opt %s --pipeline cpu --replace 'cse={' 2>&1 | filecheck %s --check-prefix=BRACE
// RUN: not penstock-opt %s --pipeline cpu --set cse=1 2>&1 | filecheck %s --check-prefix=SET
// RUN: not penstock-opt %s --pipeline cpu --set regst-plan-memory.guards=all 2>&1 | filecheck %s --check-prefix=NO-OPTION
// RUN: not penstock-opt %s --pipeline cpu --set regst-plan-memory.algorithm=bets 2>&1 | filecheck %s --check-prefix=ALGORITHM
// RUN: not penstock-opt %s --pipeline cpu --compile-to plann 2>&1 | filecheck %s --check-prefix=LEVEL
// RUN: not penstock-opt %s --pipeline cse --compile-to plan 2>&1 | filecheck %s --check-prefix=END
// RUN: not penstock-opt %s --compile-to plan 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not penstock-opt %s -p cse --skip cse 2>&1 | filecheck %s --check-prefix=ONLY-P

// PIPELINE: {{^}}penstock-opt: error: unknown pipeline 'cqu', did you mean 'cpu'? (penstock-opt --list pipeline names them)
// PASS: {{^}}penstock-opt: error: unknown pass 'canonicalise', did you mean 'canonicalize'? (penstock-opt --list pass names them)
// OPTION: {{^}}penstock-opt: error: pipeline 'cpu' has no option 'thread', did you mean 'threads'? (its options: threads,
// TYPE: {{^}}penstock-opt: error: pipeline 'cpu': incompatible types
// TEXT: {{^}}penstock-opt: error: malformed pass pipeline 'cpu{'
// SKIP: {{^}}penstock-opt: error: skip op-fuse-row: the pipeline has no pass 'op-fuse-row', did you mean 'op-fuse-rows'? (--dump-pipeline prints its passes)
// NUMBER: {{^}}penstock-opt: error: skip cse#2: pass 'cse' is in the pipeline once, got '#2'
// INSERT: {{^}}penstock-opt: error: unknown pass 'canonicaliz', did you mean 'canonicalize'? (penstock-opt --list pass names them)
// FORM: {{^}}penstock-opt: error: insert-before wants PASS=PASSES, got 'cse'
// BRACE: {{^}}penstock-opt: error: malformed pass pipeline '{'
// SET: {{^}}penstock-opt: error: set wants PASS.OPTION=VALUE, got 'cse=1'
// NO-OPTION: {{^}}penstock-opt: error: pass 'regst-plan-memory' has no option 'guards', did you mean 'guard'? (its options: algorithm, guard, steps, budget-ms)
// ALGORITHM: regst-plan-memory: no memory planner 'bets', did you mean 'best'? (penstock-opt --list memory-planner names them)
// LEVEL: {{^}}penstock-opt: error: argument --compile-to: unknown value 'plann', did you mean 'plan'? (known: job, plan, memory, launch, source)
// END: {{^}}penstock-opt: error: the pipeline has no pass 'plan-create-registers', before which the level 'plan' ends
// NONE: {{^}}penstock-opt: error: --compile-to is for a --pipeline, which is not given
// ONLY-P: {{^}}penstock-opt: error: --skip cse is for the passes of --pipeline, which is not given

job.job @relu placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
