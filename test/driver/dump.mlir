// The IR after each pass goes to stderr, so that stdout stays what it was.
// RUN: penstock-opt %s -p canonicalize,cse --print-ir-after-all 2> %t.err | filecheck %s
// RUN: filecheck %s --check-prefix=DUMP --input-file %t.err

// The same holds for the times.
// RUN: penstock-opt %s -p canonicalize,cse --time-passes 2> %t.times | filecheck %s
// RUN: filecheck %s --check-prefix=TIMES --input-file %t.times

// xdsl-opt's own flag prints between passes to stdout, and not after the last one.
// RUN: penstock-opt %s -p canonicalize,cse --print-between-passes | filecheck %s --check-prefix=BETWEEN

// CHECK-NOT:   IR Dump
// CHECK:       @twice
// CHECK:         %[[SUM:.+]] = arith.addi %a, %a
// CHECK-NEXT:    "test.op"(%[[SUM]], %[[SUM]])
func.func @twice(%a: i32) {
  %unused = arith.addi %a, %a : i32
  %0 = arith.muli %a, %a : i32
  %1 = arith.addi %a, %a : i32
  %2 = arith.addi %a, %a : i32
  "test.op"(%1, %2) : (i32, i32) -> ()
  func.return
}

// DUMP:      // -----// IR Dump After canonicalize //----- //
// DUMP-NEXT: builtin.module {
// DUMP-COUNT-2: arith.addi
// DUMP:      // -----// IR Dump After cse //----- //
// DUMP:        arith.addi
// DUMP-NOT:    arith.addi

// TIMES:      ms  share  step
// TIMES-NEXT:   load passes
// TIMES-NEXT:   parse
// TIMES-NEXT:   verify
// TIMES-NEXT:   canonicalize
// TIMES-NEXT:   cse
// TIMES-NEXT:   print
// TIMES-NEXT: 100.0%  total

// BETWEEN:     IR after canonicalize:
// BETWEEN-NOT: IR after cse:
