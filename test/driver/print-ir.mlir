// Dumps of passes that are named, before and after them, in either spelling.
// RUN: penstock-opt %s -p canonicalize,cse,dce --mlir-print-ir-before=cse --print-ir-after=canonicalize,dce 2>&1 >%t.out | filecheck %s --check-prefix=NAMED

// All of them, before and after.
// RUN: penstock-opt %s -p canonicalize,cse --mlir-print-ir-before-all --mlir-print-ir-after-all 2>&1 >%t.out | filecheck %s --check-prefix=ALL

// Of the dumps after passes those that differ from what was before.
// RUN: penstock-opt %s -p canonicalize,cse,cse --mlir-print-ir-after-change 2>&1 >%t.out | filecheck %s --check-prefix=CHANGE
// RUN: penstock-opt %s -p canonicalize,cse,cse --print-ir-after=cse --print-ir-after-change 2>&1 >%t.out | filecheck %s --check-prefix=CHANGE-CSE

// The lines that a pass has changed.
// RUN: penstock-opt %s -p cse,dce --print-ir-diff 2>&1 >%t.out | filecheck %s --check-prefix=DIFF

// Dumps are whole modules, with and without this flag of mlir-opt.
// RUN: penstock-opt %s -p cse --mlir-print-ir-after=cse --mlir-print-ir-module-scope 2>&1 >%t.out | filecheck %s --check-prefix=SCOPE

// One file a dump, named by the position of the pass.
// RUN: penstock-opt %s -p canonicalize,cse --mlir-print-ir-tree-dir=%t.dumps --mlir-print-ir-before=cse --mlir-print-ir-after-all -o %t.out
// RUN: filecheck %s --check-prefix=TREE --input-file %t.dumps/builtin_module_no-symbol-name/0_canonicalize.mlir
// RUN: filecheck %s --check-prefix=TREE --input-file %t.dumps/builtin_module_no-symbol-name/1_cse.before.mlir
// RUN: filecheck %s --check-prefix=TREE-CSE --input-file %t.dumps/builtin_module_no-symbol-name/1_cse.mlir

func.func @twice(%a: i32) {
  %unused = arith.addi %a, %a : i32
  %1 = arith.addi %a, %a : i32
  %2 = arith.addi %a, %a : i32
  "test.op"(%1, %2) : (i32, i32) -> ()
  func.return
}

// NAMED:      // -----// IR Dump After canonicalize //----- //
// NAMED-NEXT: builtin.module {
// NAMED:      // -----// IR Dump Before cse //----- //
// NAMED-NOT:  IR Dump After cse
// NAMED-NOT:  IR Dump Before dce
// NAMED:      // -----// IR Dump After dce //----- //

// ALL:      IR Dump Before canonicalize
// ALL:      IR Dump After canonicalize
// ALL:      IR Dump Before cse
// ALL:      IR Dump After cse

// CHANGE:             IR Dump After canonicalize
// CHANGE:             IR Dump After cse
// CHANGE-NOT:         IR Dump After cse
// CHANGE-CSE-NOT:     IR Dump After canonicalize
// CHANGE-CSE:         IR Dump After cse
// CHANGE-CSE-NOT:     IR Dump After cse

// DIFF:      // -----// IR Dump After cse //----- //
// DIFF-NEXT: --- before cse
// DIFF-NEXT: +++ after cse
// DIFF-NEXT: @@
// DIFF:      {{^}}-    "test.op"(%0, %1) : (i32, i32) -> ()
// DIFF-NEXT: {{^}}+    "test.op"(%0, %0) : (i32, i32) -> ()
// DIFF-NOT:  IR Dump After dce

// SCOPE: builtin.module {

// TREE:            builtin.module {
// TREE-COUNT-2:      arith.addi
// TREE-CSE:        arith.addi
// TREE-CSE-NOT:    arith.addi
