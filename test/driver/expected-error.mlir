// RUN: penstock-opt %s --verify-diagnostics --split-input-file | filecheck %s

// A section without an error is printed.
// CHECK-LABEL: @good
func.func @good() {
  func.return
}

// -----

func.func @next_line() {
  // expected-error@+1 {{arith.addi: Expected 2 operands, but got 0}}
  "arith.addi"() : () -> ()
  func.return
}

// -----

func.func @same_line() {
  "arith.addi"() : () -> () // expected-error {{got 0}}
  func.return
}

// -----

func.func @earlier_lines() {
  "arith.addi"() : () -> ()
  // expected-error@-1 {{got 0}}

  "arith.muli"() : () -> ()
  // expected-error@-1 {{arith.muli}}
  func.return
}

// -----

// `above` and `below` skip lines that hold such comments themselves.
func.func @two_errors_for_one_line() {
  // expected-error@below {{operand #1 (%b) does not dominate this use}}
  // expected-error@below {{operand #0 (%a) does not dominate this use}}
  %sum = arith.addi %a, %b : i32
  %a = arith.constant 0 : i32
  %b = arith.constant 0 : i32
  "arith.muli"() : () -> ()
  // expected-error@above {{got 0}}
  func.return
}

// -----

// Spaces may stand before the line; a number says how often; a line may hold several.
func.func @written_otherwise() {
  // expected-error @+1 {{got 0}}
  "arith.addi"() : () -> ()
  // expected-error@below 2 {{does not dominate this use}}
  %sum = arith.addi %a, %b : i32
  %a = arith.constant 0 : i32
  %b = arith.constant 0 : i32
  "arith.muli"() : () -> () // expected-error {{muli}} expected-error@+1 {{subi}}
  "arith.subi"() : () -> ()
  func.return
}

// -----

// With -re braces hold regular expressions, and all else is as it is.
func.func @regular_expressions() {
  // expected-error-re@+1 {{arith.{{(add|mul)i}}: Expected {{[0-9]}} operands}}
  "arith.addi"() : () -> ()
  // expected-error-re@below {{operand #0 (%a) does not {{.*}}}}
  "test.op"(%a) : (i32) -> ()
  %a = arith.constant 0 : i32
  func.return
}

// -----

// What errors refer to are notes.
func.func @defined_twice() {
// expected-note@+1 {{originally declared here}}
^a:
  func.return
// expected-error@+1 {{re-declaration of block 'a'}}
^a:
  func.return
}

// -----

// Parse errors count too.
func.func @parse_error() {
  // expected-error@+1 {{Operation arith.nothing is not registered}}
  arith.nothing
  func.return
}

// -----

// Of two texts that fit an error, it takes the longer one.
func.func @overlapping_texts() {
  // expected-error@+1 {{got 0}} 
  "arith.addi"() : () -> ()
  // expected-error@+2 {{#0}}
  // expected-error@+1 {{#0 (%late) does not dominate}}
  "test.op"(%late, %late_too) ({ "test.termop"(%late) : (i32) -> () }) : (i32, i32) -> ()
  // expected-error@-1 {{#1}}
  %late, %late_too = "test.op"() : () -> (i32, i32)
  func.return
}

// CHECK-NOT: func.func
