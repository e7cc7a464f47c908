// RUN: penstock-opt %s --allow-unregistered-dialect --verify-diagnostics --split-input-file

// expected-error@+1 {{a section is one of input, outputs, total, got 'all'}}
"test.op"() {a = #job.section<"x", all>} : () -> ()

// -----

// expected-error@+1 {{a section names a thing once, got w, w}}
"test.op"() {a = #job.section<"x", total reads ["w"] writes ["w"]>} : () -> ()

// -----

// expected-error@+1 {{sections should list #job.section, got 1 : i64}}
job.job @other placement <cpu, [0:0]> attributes {sections = 1 : i64} {
  %x = job.input "x" : tensor<4xf32>
}

// -----

// expected-error@+1 {{two sections are named 'a'}}
job.job @doubled placement <cpu, [0:0]> attributes {sections = [#job.section<"a", total>, #job.section<"a", input>]} {
  %x = job.input "x" : tensor<4xf32>
}

// -----

// expected-error@+1 {{the first section, and no other, is of kind total, got total, input, total}}
job.job @totals placement <cpu, [0:0]> attributes {sections = [#job.section<"a", total>, #job.section<"b", input>, #job.section<"c", total>]} {
  %x = job.input "x" : tensor<4xf32>
}
