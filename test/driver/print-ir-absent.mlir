// Passes that are to be shown, but are in no pipeline, are told: each once, in the end.
// RUN: penstock-opt %s -p canonicalize,cse --print-ir-after=canonicalize,dce --print-ir-before=lift-arith-to-linalg --split-input-file 2>&1 >%t.out | filecheck %s

// They are not known where the file is not even read.
// RUN: not penstock-opt %s.none -p cse --print-ir-after=dce 2>&1 | filecheck %s --check-prefix=NONE

// CHECK:      IR Dump After canonicalize
// CHECK:      IR Dump After canonicalize
// CHECK:      penstock-opt: warning: --print-ir-before: the pipeline has no pass 'lift-arith-to-linalg' (--dump-pipeline prints its passes)
// CHECK-NEXT: penstock-opt: warning: --print-ir-after: the pipeline has no pass 'dce' (--dump-pipeline prints its passes)
// CHECK-NOT:  warning
// NONE-NOT:   warning
func.func @a() {
  func.return
}

// -----

func.func @b() {
  func.return
}
