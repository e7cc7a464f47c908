// A pipeline that is stopped at a level goes on in another command, which reads what the
// first one has printed.
// RUN: penstock-opt %s --pipeline cpu --compile-to plan | penstock-run - --compile-to memory | filecheck %s

// CHECK:     regst.register "y/out" in %{{.+}} at
// CHECK-NOT: launch.program

job.job @relu placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
