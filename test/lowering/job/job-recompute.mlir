// RUN: penstock-opt %s -p 'job-recompute{policy=segments}' | filecheck %s --check-prefix=SEGMENTS
// RUN: penstock-opt %s -p job-recompute | filecheck %s --check-prefix=AUTO
// RUN: penstock-opt %s -p 'job-recompute{policy=min-cut}' | filecheck %s --check-prefix=CUT
// RUN: penstock-opt %s -p 'job-recompute{policy=min-cut},job-clean,job-recompute{policy=min-cut}' | filecheck %s --check-prefix=CUT
// RUN: penstock-opt %s -p 'job-recompute{policy=budget budget=4000000}' | filecheck %s --check-prefix=NONE

!t = tensor<8x8xf32>
!large = tensor<512x512xf32>

// What a segment makes for others is kept; all else, products too, is made again of what
// came in, once its gradient is there. By a minimum cut products are kept, and what
// comes before any gradient waits for none.

// SEGMENTS-LABEL: @segments
// SEGMENTS:         %b = op.matmul %a, %w {segment = "one"}
// SEGMENTS:         %g = op.matmul %c, %w {pass = "backward"}
// SEGMENTS-NEXT:    %[[X:.+]] = job.after %x, %g
// SEGMENTS-NEXT:    %[[A:.+]] = op.matmul %[[X]], %w {pass = "recompute"}
// SEGMENTS-NEXT:    op.mul %g, %[[A]] {pass = "backward"}
// SEGMENTS-NEXT:    op.mul %{{.+}}, %b {pass = "backward"}
// CUT-LABEL:      @segments
// CUT:              %[[C:.+]] = op.relu %b {pass = "recompute"}
// CUT-NEXT:         %g = op.matmul %[[C]], %w {pass = "backward"}
// CUT-NOT:          recompute
// CUT:              job.output "d"
// NONE-LABEL:     @segments
// NONE-NOT:         recompute
// NONE:             job.output "d"
job.job @segments placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <ones> : !t
  %a = op.matmul %x, %w {segment = "one"} : !t, !t -> !t
  %b = op.matmul %a, %w {segment = "one"} : !t, !t -> !t
  %c = op.relu %b : !t -> !t
  %g = op.matmul %c, %w {pass = "backward"} : !t, !t -> !t
  %d = op.mul %g, %a {pass = "backward"} : !t, !t -> !t
  %e = op.mul %d, %b {pass = "backward"} : !t, !t -> !t
  job.output "d", %e : !t
}

// A clone for an op that is given the sum of a product waits for the sum, so that it may
// still end the product; one for an op on rows, with which sums are fused, for the product.

// SEGMENTS-LABEL: @ended
// SEGMENTS:         %[[X:.+]] = job.after %x, %s
// SEGMENTS-NEXT:    %[[A:.+]] = op.exp %[[X]] {pass = "recompute"}
// SEGMENTS-NEXT:    %d = op.matmul %s, %[[A]] {pass = "backward"}
// SEGMENTS:         %[[Y:.+]] = job.after %x, %d
// SEGMENTS-NEXT:    %[[B:.+]] = op.softmax %[[Y]] axis 1 {pass = "recompute"}
// SEGMENTS-NEXT:    op.softmax_gradient %[[B]], %t axis 1 {pass = "backward"}
job.job @ended placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <ones> : !t
  %a = op.exp %x {segment = "one"} : !t -> !t
  %b = op.softmax %x axis 1 {segment = "one"} : !t -> !t
  %c = op.matmul %a, %b {segment = "one"} : !t, !t -> !t
  %k = op.relu %c : !t -> !t
  %g = op.matmul %k, %w {pass = "backward"} : !t, !t -> !t
  %s = op.add %g, %k {pass = "backward"} : !t, !t -> !t
  %d = op.matmul %s, %a {pass = "backward"} : !t, !t -> !t
  %t = op.add %d, %k {pass = "backward"} : !t, !t -> !t
  %e = op.softmax_gradient %b, %t axis 1 {pass = "backward"} : !t, !t -> !t
  job.output "e", %e : !t
}

// A clone serves all readers, and only what is read is made again: not %a, which takes
// as many bytes as %y does.

// CUT-LABEL:      @chain
// CUT:              %[[B:.+]] = op.sigmoid %a {pass = "recompute"}
// CUT-NEXT:         op.matmul %[[B]], %w {pass = "backward"}
// CUT-NEXT:         op.mul %{{.+}}, %a {pass = "backward"}
// CUT-NEXT:         op.mul %{{.+}}, %[[B]] {pass = "backward"}
// CUT-NEXT:         op.mul %{{.+}}, %a {pass = "backward"}
// SEGMENTS-LABEL: @chain
// SEGMENTS-NOT:     recompute
// SEGMENTS:         job.output "f"
job.job @chain placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <ones> : !t
  %y = op.matmul %x, %w : !t, !t -> !t
  %a = op.exp %y : !t -> !t
  %b = op.sigmoid %a : !t -> !t
  %g = op.matmul %b, %w {pass = "backward"} : !t, !t -> !t
  %d = op.mul %g, %a {pass = "backward"} : !t, !t -> !t
  %e = op.mul %d, %b {pass = "backward"} : !t, !t -> !t
  %f = op.mul %e, %a {pass = "backward"} : !t, !t -> !t
  job.output "f", %f : !t
}

// Where as many bytes are kept either way, nothing is made again.

// CUT-LABEL:      @alike
// CUT-NOT:          recompute
// CUT:              job.output "d"
job.job @alike placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <ones> : !t
  %y = op.matmul %x, %w : !t, !t -> !t
  %a = op.exp %y : !t -> !t
  %g = op.matmul %w, %w {pass = "backward"} : !t, !t -> !t
  %d = op.mul %g, %a {pass = "backward"} : !t, !t -> !t
  job.output "d", %d : !t
}

// The batch norm and what follows it are made again of the product and its statistics; an
// op that can fail is not, nor are the numbers of updates, which are no activations.

// CUT-LABEL:      @norm
// CUT:              op.gather
// CUT-NOT:          op.gather
// CUT:              op.batch_norm %{{.+}}, %s, %s, %{{.+}}, %{{.+}} {pass = "recompute"}
// CUT-NEXT:         op.relu %{{.+}} {pass = "recompute"}
// CUT-NOT:          recompute
// CUT:              job.output "n"
job.job @norm placement <cpu, [0:0]> {
  %i = job.input "i" : tensor<8xi64>
  %t = job.variable "t" init <ones> : tensor<9x8xf32>
  %s = job.variable "s" init <ones> : tensor<8xf32>
  %step = job.variable "step" init <ones> : tensor<f32>
  %x = op.gather %t[%i] axis 0 : tensor<9x8xf32>, tensor<8xi64> -> !t
  %y = op.matmul %x, %x : !t, !t -> !t
  %m, %v = op.batch_norm_statistics %y : !t -> tensor<8xf32>, tensor<8xf32>
  %b = op.batch_norm %y, %s, %s, %m, %v
    : !t, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32> -> !t
  %r = op.relu %b : !t -> !t
  %g = op.matmul %x, %y {pass = "backward"} : !t, !t -> !t
  %d = op.mul %g, %r {pass = "backward"} : !t, !t -> !t
  %e = op.mul %d, %y {pass = "backward"} : !t, !t -> !t
  %h = op.mul %e, %x {pass = "backward"} : !t, !t -> !t
  %rate = op.exp %step {pass = "update"} : tensor<f32> -> tensor<f32>
  %n = op.mul %h, %rate {pass = "update"} : !t, tensor<f32> -> !t
  job.output "n", %n : !t
}

// Unless told otherwise, segments are made again whole, and what is cheap elsewhere if
// that saves a MiB: %u and %v are made of %y.

// AUTO-LABEL:     @large
// AUTO:             %g = op.matmul %b, %w {pass = "backward"}
// AUTO:             op.matmul %{{.+}}, %w {pass = "recompute"}
// AUTO-NEXT:        op.mul %g, %{{.+}} {pass = "backward"}
// AUTO:             %[[Y:.+]] = job.after %y, %{{.+}}
// AUTO-NEXT:        op.sigmoid %[[Y]] {pass = "recompute"}
// AUTO:             op.tanh %[[Y]] {pass = "recompute"}
// AUTO:             job.output "f"
// SEGMENTS-LABEL: @large
// SEGMENTS:         op.matmul %{{.+}}, %w {pass = "recompute"}
// SEGMENTS-NOT:     recompute
// SEGMENTS:         job.output "f"
job.job @large placement <cpu, [0:0]> {
  %x = job.input "x" : !large
  %w = job.variable "w" init <ones> : !large
  %a = op.matmul %x, %w {segment = "one"} : !large, !large -> !large
  %b = op.matmul %a, %w {segment = "one"} : !large, !large -> !large
  %y = op.matmul %b, %w : !large, !large -> !large
  %u = op.sigmoid %y : !large -> !large
  %v = op.tanh %y : !large -> !large
  %g = op.matmul %b, %w {pass = "backward"} : !large, !large -> !large
  %c = op.mul %g, %a {pass = "backward"} : !large, !large -> !large
  %d = op.matmul %c, %w {pass = "backward"} : !large, !large -> !large
  %e = op.mul %d, %u {pass = "backward"} : !large, !large -> !large
  %f = op.mul %e, %v {pass = "backward"} : !large, !large -> !large
  job.output "f", %f : !large
}

// Of 4 bytes less, nothing is made again, and nothing on several devices either.

// AUTO-LABEL:     @smaller
// AUTO-NOT:         recompute
// AUTO:             job.output "f"
job.job @smaller placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<262143xf32>
  %y = op.cum_sum %x axis 0 : tensor<262143xf32> -> tensor<262143xf32>
  %u = op.sigmoid %y : tensor<262143xf32> -> tensor<262143xf32>
  %v = op.tanh %y : tensor<262143xf32> -> tensor<262143xf32>
  %e = op.mul %x, %u {pass = "backward"} : tensor<262143xf32>, tensor<262143xf32> -> tensor<262143xf32>
  %f = op.mul %e, %v {pass = "backward"} : tensor<262143xf32>, tensor<262143xf32> -> tensor<262143xf32>
  job.output "f", %f : tensor<262143xf32>
}

// AUTO-LABEL:     @parallel
// AUTO-NOT:         recompute
// AUTO:             job.output "f"
// CUT-LABEL:      @parallel
// CUT:              recompute
// CUT:              job.output "f"
job.job @parallel placement <cpu, [0:0-1]> {
  %x = job.input "x" : !large
  %w = job.variable "w" init <ones> : !large
  %y = op.matmul %x, %w : !large, !large -> !large
  %u = op.sigmoid %y : !large -> !large
  %v = op.tanh %y : !large -> !large
  %e = op.mul %w, %u {pass = "backward"} : !large, !large -> !large
  %f = op.mul %e, %v {pass = "backward"} : !large, !large -> !large
  job.output "f", %f : !large
}
