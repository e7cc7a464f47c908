// RUN: penstock-opt %s -p op-infer-shapes,job-place,convert-job-to-plan,plan-create-registers,regst-mark-interfaces,regst-plan-memory,plan-merge-jobs -t memory-report | filecheck %s

!t = tensor<16x16xf32>

// Jobs that exclude each other take the most that one of them needs, others add up, and
// an interface of several jobs counts once: 1 KiB each of "w" and "x", 2 KiB of "train"
// (or 1 of "eval") and 3 KiB of "other" make 7 KiB, of which "w" is no activation.

// CHECK-LABEL: plan @main: 12 steps on 1 stream, jobs train, eval, other; never together: train, eval
// CHECK-EMPTY:
// CHECK-NEXT:  memory <0, host>: activations peak 6.0 KiB (1.000 x the bound of 6.0 KiB), 8.0 KiB unshared; weights 1.0 KiB
// CHECK:       train/x/out{{.*}}always{{.*}}interface 'x'
// CHECK:       eval/x/out{{.*}}always{{.*}}interface 'x'
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> : !t
  %a = op.matmul %x, %w : !t, !t -> !t
  %b = op.matmul %a, %w : !t, !t -> !t
  %c = op.matmul %b, %w : !t, !t -> !t
  job.output "y", %c : !t
}

job.job @eval placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> : !t
  %a = op.matmul %x, %w : !t, !t -> !t
  job.output "z", %a : !t
}

job.job @other placement <cpu, [0:0]> {
  %v = job.input "v" : !t
  %a = op.matmul %v, %v : !t, !t -> !t
  %b = op.matmul %a, %v : !t, !t -> !t
  job.output "q", %b : !t
}
