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

// A comment that looks like an expectation and is none is an error.
func.func @malformed() {
  // expected-error@elsewhere {{too many stars}}
  // expected-eror@+1 {{too many stars}}
  // expected-error@+1 {too many stars}
  // expected error @+1 {{too many stars}}
  // expected-error@+1 {{too many stars}} and more
  // expected-error-re@+1 {{too many {{(}} stars}}
  // Expected-Error@+1 {{too many stars}}
  // expected-error 0 {{too many stars}}
  // expected-error
  // Errors were expected {{here}}, @+1.
  func.return
}

// -----

// The kind counts, and so does how often.
func.func @kinds() {
  // expected-warning@+2 {{got 0}}
  // expected-error@+1 2 {{got 0}}
  "arith.addi"() : () -> ()
  func.return
}

// CHECK:      mismatch.mlir:5:6: error: expected error "too many stars" was not produced
// CHECK-NEXT: mismatch.mlir:12:3: error: unexpected error: arith.addi: Expected 2 operands, but got 0
// CHECK-NEXT: mismatch.mlir:19:6: error: expected error "too many stars" was not produced
// CHECK-NEXT: mismatch.mlir:20:3: error: unexpected error: arith.addi: Expected 2 operands, but got 0
// CHECK-NEXT: mismatch.mlir:28:6: error: 'expected-error' looks like an expectation and is none, write
// CHECK-NEXT: mismatch.mlir:29:6: error: 'expected-eror' looks like
// CHECK-NEXT: mismatch.mlir:30:6: error: 'expected-error' looks like
// CHECK-NEXT: mismatch.mlir:31:6: error: 'expected error' looks like
// CHECK-NEXT: mismatch.mlir:32:6: error: 'expected-error' looks like
// CHECK-NEXT: mismatch.mlir:33:6: error: bad regular expression in a comment: missing ), unterminated subpattern
// CHECK-NEXT: mismatch.mlir:34:6: error: 'Expected-Error' looks like
// CHECK-NEXT: mismatch.mlir:35:6: error: 'expected-error' looks like
// CHECK-NEXT: mismatch.mlir:45:6: error: expected warning "got 0" was not produced
// CHECK-NEXT: mismatch.mlir:46:6: error: expected error "got 0" was not produced
// CHECK-NOT:  error
