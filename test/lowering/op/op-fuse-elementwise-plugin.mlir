// RUN: penstock-opt %s --load %S/../Inputs/square.py -p op-fuse-elementwise | filecheck %s

// Elementwise ops of other packages are fused like those of `op`, but for ops with
// regions.

!t = tensor<4xf32>

// CHECK-LABEL: job.job @plugin
job.job @plugin placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  // CHECK:      %b = op.fused %x
  // CHECK:        %a = "third.square"
  // CHECK-NEXT:   op.relu %a
  %a = "third.square"(%x) : (!t) -> !t
  %b = op.relu %a : !t -> !t
  // CHECK:      "third.square"(%b) ({
  // CHECK-NOT:  op.fused
  %c = "third.square"(%b) ({
  ^bb0:
    "test.termop"() : () -> ()
  }) : (!t) -> !t
  %d = op.relu %c : !t -> !t
  job.output "y", %d : !t
}
