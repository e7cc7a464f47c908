// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-mark-interfaces,regst-alias-registers,regst-plan-memory -o %t.mlir
// RUN: penstock-opt %t.mlir -t memory-report | filecheck %s
// RUN: penstock-opt %t.mlir -t 'memory-report{format=json}' | filecheck %s --check-prefix=JSON

!t = tensor<64xf32>

// The plan of a body stands below that which has its memory as a register, and those of
// bodies in it below that. The memory of the loop holds the carried value, its sums, and
// the memory of the condition; each is 256 bytes.

// CHECK:       plan @nested: {{.*}} steps on 1 stream
// CHECK:         y/memory {{.*}} y {{.*}} alive at the peak
// CHECK-NOT:   plan @
// CHECK:       body of y (op.loop 5) in y/memory: 6 steps on 1 stream
// CHECK:       memory <0, host>: activations peak 768 B
// CHECK:         d/memory {{.*}} 256
// CHECK:       outside of its memory: a/out, g/out, d/out
// CHECK:       body of y/d (op.if, then) in d/memory: 5 steps on 1 stream
// CHECK:         h/out {{.*}} 256
// CHECK:       body of y/d (op.if, else) in d/memory: 3 steps on 1 stream
// CHECK-NOT:   memory <

// JSON:      "plan": "nested"
// JSON-NEXT: "body": null
// JSON:      "bodies": [
// JSON:        "body": {"task": "y", "form": "op.loop 5", "register": "y/memory"}
// JSON:        "bodies": [
// JSON:          "body": {"task": "y/d", "form": "op.if, then", "register": "d/memory"}
// JSON:          "body": {"task": "y/d", "form": "op.if, else", "register": "d/memory"}
job.job @nested placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %xs = job.input "xs" : tensor<5x64xf32>
  %go = job.input "go" : tensor<i1>
  %y = op.loop 5 carries(%x : !t) slices(%xs : tensor<5x64xf32>) reads(%go : tensor<i1>) -> !t {
  ^bb0(%i: tensor<i64>, %z: !t, %a: !t, %g: tensor<i1>):
    %c = op.cum_sum %z axis 0 : !t -> !t
    %d = op.if %g reads(%c, %a : !t, !t) -> !t {
    ^bb1(%e: !t, %f: !t):
      %h = op.softmax %e axis 0 : !t -> !t
      %k = op.mul %h, %f : !t, !t -> !t
      op.yield %k : !t
    } else {
    ^bb1(%e: !t, %f: !t):
      op.yield %f : !t
    }
    op.yield %d : !t
  }
  job.output "y", %y : !t
}
