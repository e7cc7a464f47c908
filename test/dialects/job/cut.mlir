// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s --pipeline cpu | filecheck %s --check-prefix=LAUNCH
// RUN: penstock-opt %s --pipeline cpu | penstock-opt | filecheck %s --check-prefix=LAUNCH

// An output is cut by another one of its job, from the job to the launch program.

// CHECK-LABEL: job.job @places
job.job @places placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4x8xf32>
  %p, %n = op.non_zero %a : tensor<4x8xf32> -> tensor<2x32xi64>, tensor<i64>
  // CHECK: job.output "p", %p cut by "n" axis 1 : tensor<2x32xi64>
  // LAUNCH: launch.fetch "p" from @{{.+}} cut by "n" axis 1
  job.output "p", %p cut by "n" axis 1 : tensor<2x32xi64>
  // CHECK-NEXT: job.output "n", %n : tensor<i64>
  // LAUNCH: launch.fetch "n" from @{{.+}}{{$}}
  job.output "n", %n : tensor<i64>
}

// An output may be cut along several axes, each by an output of its own.

// CHECK-LABEL: job.job @pairs
job.job @pairs placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4x8xf32>
  %p, %n = op.non_zero %a : tensor<4x8xf32> -> tensor<2x32xi64>, tensor<i64>
  %q = op.matmul %p, %p transpose_a : tensor<2x32xi64>, tensor<2x32xi64> -> tensor<32x32xi64>
  // CHECK: job.output "q", %q cut by "n" axis 0, "n" axis 1 : tensor<32x32xi64>
  job.output "q", %q cut by "n" axis 0, "n" axis 1 : tensor<32x32xi64>
  job.output "n", %n : tensor<i64>
}

// States have as many elements of a variable as another one says.

// CHECK-LABEL: job.job @stored
job.job @stored placement <cpu, [0:0]> {
  // CHECK: %s = job.variable "s" cut by "c" axis 1 init <zeros> : tensor<2x32xi64>
  // LAUNCH: launch.variable @s cut by "c" axis 1 in
  %s = job.variable "s" cut by "c" axis 1 init <zeros> : tensor<2x32xi64>
  %c = job.variable "c" also ["d"] init <zeros> : tensor<i64>
  job.output "s_now", %s : tensor<2x32xi64>
  job.output "c_now", %c : tensor<i64>
}
