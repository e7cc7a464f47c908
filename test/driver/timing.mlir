// Times go to stderr as a tree, in which a pass has those that it runs.
// RUN: penstock-opt %s -p job-clean,cse --mlir-timing 2> %t.times | filecheck %s
// RUN: filecheck %s --check-prefix=TREE --input-file %t.times

// By name, one line each.
// RUN: penstock-opt %s -p job-clean,cse --timing --timing-display=list 2> %t.list -o %t.out
// RUN: filecheck %s --check-prefix=LIST --input-file %t.list

// As JSON, on stderr or in a file.
// RUN: penstock-opt %s -p job-clean,cse --timing --json --info-output-file=%t.json -o %t.out
// RUN: filecheck %s --check-prefix=JSON --input-file %t.json

// CHECK: job.job @empty
job.job @empty placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "y", %x : tensor<4xf32>
}

// TREE:      ===--
// TREE-NEXT:   ... Execution time report ...
// TREE-NEXT: ===--
// TREE-NEXT:   Total Execution Time: {{.*}} seconds
// TREE:        ----Wall Time-----  ----Name----
// TREE-NEXT:   {{%\)}}  load passes
// TREE-NEXT:   {{%\)}}  parse
// TREE-NEXT:   {{%\)}}  verify
// TREE-NEXT:   {{%\)}}  job-clean
// TREE-NEXT:   {{%\)}}    canonicalize
// TREE-NEXT:   {{%\)}}    cse
// TREE-NEXT:   {{%\)}}  verify
// TREE-NEXT:   {{%\)}}  cse
// TREE-NEXT:   {{%\)}}  verify
// TREE-NEXT:   {{%\)}}  print
// TREE-NEXT:   {{%\)}}  Rest
// TREE-NEXT:   (100.0%)  Total

// LIST-COUNT-1: cse
// LIST-NOT:     cse
// LIST:         Total

// JSON: {"timing": [{"wall": {"duration": {{[0-9.e-]+}}, "percentage": {{[0-9.]+}}}, "name": "load passes"}
// JSON-SAME: "name": "job-clean", "passes": [{"wall": {{[^}]*}}}, "name": "canonicalize"}
