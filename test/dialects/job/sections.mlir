// RUN: penstock-opt %s --allow-unregistered-dialect | penstock-opt --allow-unregistered-dialect | filecheck %s
// RUN: penstock-opt %s --allow-unregistered-dialect --print-op-generic | penstock-opt --allow-unregistered-dialect | filecheck %s

// What a section reads or writes may be left out.

// CHECK-LABEL: job.job @sections placement <cpu, [0:0]> attributes {sections = [#job.section<"total", total reads ["w", "v"] writes ["step"]>, #job.section<"input/x", input reads ["x"]>, #job.section<"o", outputs>]}
job.job @sections placement <cpu, [0:0]> attributes {sections = [#job.section<"total", total reads ["w", "v"] writes ["step"]>, #job.section<"input/x", input reads ["x"]>, #job.section<"o", outputs reads []>]} {
  %x = job.input "x" : tensor<4xf32>
}

// CHECK:      job.source_tick "total"
// CHECK-NEXT: job.sink_tick "total"
job.source_tick "total"
job.sink_tick "total"

// CHECK:      job.commit
job.commit
