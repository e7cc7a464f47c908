// RUN: penstock-opt %s --verify-diagnostics --split-input-file | filecheck %s

// Values of enclosing regions and of dominating blocks are available.
// CHECK-LABEL: @available
func.func @available(%c: i1) {
  %outer = arith.constant 1 : i32
  cf.cond_br %c, ^left, ^right
^left:
  %inner = "test.op"(%outer) ({
    %copy = arith.addi %outer, %outer : i32
    "test.termop"(%copy) : (i32) -> ()
  }) : (i32) -> i32
  cf.br ^join(%inner : i32)
^right:
  cf.br ^join(%outer : i32)
^join(%merged: i32):
  "test.op"(%merged, %outer, %c) : (i32, i32, i1) -> ()
  func.return
}

// A loop's header dominates its body and what follows.
// CHECK-LABEL: @loop
func.func @loop(%c: i1) {
  cf.br ^header
^header:
  %i = "test.op"() : () -> i32
  cf.cond_br %c, ^body, ^exit
^body:
  "test.op"(%i) : (i32) -> ()
  cf.br ^header
^exit:
  "test.op"(%i) : (i32) -> ()
  func.return
}

// Unreachable blocks may use anything.
// CHECK-LABEL: @unreachable
func.func @unreachable() {
  func.return
^dead:
  "test.op"(%late) : (i32) -> ()
  %late = "test.op"() : () -> i32
  func.return
}

// -----

func.func @one_arm_does_not_dominate_the_join(%c: i1) {
  cf.cond_br %c, ^left, ^join
^left:
  %x = arith.constant 1 : i32
  cf.br ^join
^join:
  // expected-error@+1 {{test.op: operand #0 (%x) does not dominate this use: it is defined at line 51}}
  "test.op"(%x) : (i32) -> ()
  func.return
}

// -----

func.func @own_result() {
  // expected-error@+1 {{arith.addi: operand #0 (%x) does not dominate this use}}
  %x = arith.addi %x, %x : i32
  func.return
}

// -----

func.func @result_in_own_region() {
  %x = "test.op"() ({
    // expected-error@+1 {{operand #0 (%x) does not dominate this use}}
    "test.termop"(%x) : (i32) -> ()
  }) : () -> i32
  func.return
}

// -----

func.func @unnamed_value() {
  // expected-error@+1 {{operand #0 does not dominate this use}}
  "test.op"(%0) : (i32) -> ()
  %0 = "test.op"() : () -> i32
  func.return
}

// -----

// What an isolated operation takes from outside is reported once, where it is used.
%x = "test.op"() : () -> i32
func.func @isolated() {
  // expected-error@+1 {{test.op: operand #0 (%x) is defined outside of func.func, which is isolated from above}}
  "test.op"(%x) : (i32) -> ()
  func.return
}

// -----

// A definition inside an isolated operation is checked as anywhere else.
func.func @isolated_and_late() {
  // expected-error@+1 {{operand #0 (%x) does not dominate this use}}
  "test.op"(%x) : (i32) -> ()
  %x = "test.op"() : () -> i32
  func.return
}
