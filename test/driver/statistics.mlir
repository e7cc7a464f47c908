// Statistics go to stderr: ops before and after each pass, and what it counted.
// RUN: penstock-opt %s -p cse,dce,cse --mlir-pass-statistics 2>&1 >%t.out | filecheck %s
// RUN: penstock-opt %s -p cse,dce,cse --pass-statistics --pass-statistics-display=list 2>&1 >%t.out | filecheck %s --check-prefix=LIST
// RUN: penstock-opt %s -p cse,dce,cse --pass-statistics --json 2>&1 >%t.out | filecheck %s --check-prefix=JSON

// The number of ops of each kind, in place of the IR.
// RUN: penstock-opt %s -p cse --print-op-stats | filecheck %s --check-prefix=OPS
// RUN: penstock-opt %s -p cse -t op-stats{format=json} | filecheck %s --check-prefix=OPS-JSON
// RUN: penstock-opt %s -p cse --print-op-stats --json | filecheck %s --check-prefix=OPS-JSON

// Other tables are JSON, too.
// RUN: penstock-opt %s -p cse --time-passes --json 2>&1 >%t.out | filecheck %s --check-prefix=TIMES

// TIMES: {"timing": [{"wall": {"duration":

func.func @twice(%a: i32) {
  %0 = arith.muli %a, %a : i32
  %1 = arith.addi %a, %a : i32
  %2 = arith.addi %a, %a : i32
  "test.op"(%1, %2) : (i32, i32) -> ()
  func.return
}

// CHECK:      ===--
// CHECK-NEXT:   ... Pass statistics report ...
// CHECK-NEXT: ===--
// CHECK-NEXT: 'cse' Pass
// CHECK-NEXT:   (S) 6 ops before
// CHECK-NEXT:   (S) 4 ops after
// CHECK-NEXT: 'dce' Pass
// CHECK-NEXT:   (S) 4 ops before
// CHECK-NEXT:   (S) 4 ops after
// CHECK-NEXT: 'cse' Pass

// LIST:      'cse' Pass
// LIST-NEXT:   (S) 10 ops before
// LIST-NEXT:   (S)  8 ops after
// LIST-NEXT: 'dce' Pass

// JSON: {"pass-statistics": [{"pass": "cse", "statistics": {"ops before": 6, "ops after": 4}}, {"pass": "dce"

// OPS:      Operations encountered:
// OPS-NEXT: -----------------------
// OPS-NEXT:     arith.addi   , 1
// OPS-NEXT:   builtin.module , 1
// OPS-NEXT:      func.func   , 1
// OPS-NEXT:      func.return , 1
// OPS-NEXT:      test.op     , 1

// OPS-JSON: {"arith.addi": 1, "builtin.module": 1, "func.func": 1, "func.return": 1, "test.op": 1}
