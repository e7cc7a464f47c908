// Every bad operation is reported with its file, line and column, inner ones too.
// RUN: not penstock-opt %s 2>&1 | filecheck %s

func.func @two_bad_operations() {
  %0 = "arith.addi"() : () -> i32
  "test.op"() ({
    "arith.muli"() : () -> ()
    "test.termop"() : () -> ()
  }) : () -> ()
  func.return
}

// A location that the text states is kept.
func.func @stated_location() {
  "arith.subi"() : () -> () loc("model.py":7:8)
  func.return
}

// CHECK:      {{^.*}}locations.mlir:5:3: error: arith.addi: Expected 2 operands, but got 0{{$}}
// CHECK-NEXT: {{^.*}}locations.mlir:7:5: error: arith.muli: Expected 2 operands, but got 0{{$}}
// CHECK-NEXT: {{^}}model.py:7:8: error: arith.subi: Expected 2 operands, but got 0{{$}}
// CHECK-NOT:  error:
