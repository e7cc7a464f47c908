// What does not match the comments is listed; line numbers are those of the whole file.
// RUN: not penstock-opt %s --verify-diagnostics --split-input-file 2>&1 | filecheck %s

func.func @not_produced() {
  // expected-error@+1 {{too many stars}}
  func.return
}

// -----

func.func @unexpected() {
  "arith.addi"() : () -> ()
  func.return
}

// -----

func.func @wrong_text() {
  // expected-error@+1 {{too many stars}}
  "arith.addi"() : () -> ()
  func.return
}

// -----

func.func @malformed() {
  // expected-error@elsewhere {{too many stars}}
  func.return
}

// CHECK:      mismatch.mlir:5:3: error: expected error "too many stars" was not produced
// CHECK-NEXT: mismatch.mlir:12:3: error: unexpected error: arith.addi: Expected 2 operands, but got 0
// CHECK-NEXT: mismatch.mlir:19:3: error: expected error "too many stars" was not produced
// CHECK-NEXT: mismatch.mlir:20:3: error: unexpected error: arith.addi: Expected 2 operands, but got 0
// CHECK-NEXT: mismatch.mlir:27:3: error: malformed comment, write expected-error@+N
