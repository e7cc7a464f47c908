// In a file that expects no error, the flag prints each error to stdout instead.
// RUN: penstock-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// Without the second flag a parse error remains one.
// RUN: not penstock-opt %s --verify-diagnostics --split-input-file 2>&1 | filecheck %s --check-prefix=PARSE

// PARSE: print-diagnostics.mlir:31:3: error: Operation arith.muly is not registered, did you mean 'arith.muli'?

// CHECK:      print-diagnostics.mlir:17:3: error: arith.addi: Expected 2 operands, but got 0
// CHECK-NEXT: print-diagnostics.mlir:18:3: error: arith.muli: Expected 2 operands, but got 0
// CHECK-NEXT: // -----
// CHECK-NEXT: builtin.module
// CHECK:      // -----
// CHECK-NEXT: print-diagnostics.mlir:31:3: error: Operation arith.muly is not registered, did you mean 'arith.muli'?
// CHECK-NEXT:   arith.muly
// CHECK-NEXT:   ^^^^^^^^^^
func.func @bad() {
  "arith.addi"() : () -> ()
  "arith.muli"() : () -> ()
  func.return
}

// -----

func.func @good() {
  func.return
}

// -----

func.func @unreadable() {
  arith.muly
}
