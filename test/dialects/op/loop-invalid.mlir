// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{-1}}
  %b = op.loop -1 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    op.yield %c : tensor<4xf32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.loop: the body's arguments should be tensor<i64>, tensor<4xf32>, got tensor<4xf32>}}
  %b = op.loop 2 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%c: tensor<4xf32>):
    op.yield %c : tensor<4xf32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.loop: there are no 3 slices of tensor<4xf32>}}
  %b = op.loop 3 slices(%a : tensor<4xf32>) -> tensor<3xf32> {
  ^bb0(%i: tensor<i64>, %x: tensor<f32>):
    op.yield %x : tensor<f32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<f32>) {
  // expected-error@+1 {{op.loop: there are no 3 slices of tensor<f32>}}
  %b = op.loop 3 slices(%a : tensor<f32>) -> tensor<3xf32> {
  ^bb0(%i: tensor<i64>, %x: tensor<f32>):
    op.yield %x : tensor<f32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.loop: the loop carries 1 values, the body yields 0}}
  %b = op.loop 2 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    op.yield
  }
  func.return
}

// -----

// What is carried has one type.

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.loop: carried value 0 is tensor<4xf32> before an iteration, tensor<1x4xf32> after it}}
  %b = op.loop 2 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    %d = op.reshape %c to [1, 4] : tensor<4xf32> -> tensor<1x4xf32>
    op.yield %d : tensor<1x4xf32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.loop: the result's type should be tensor<2x4xf32>, got tensor<4xf32>}}
  %b = op.loop 2 reads(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    op.yield %c : tensor<4xf32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.loop: the body should end in op.yield of its results}}
  %b = op.loop 2 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    "test.termop"() : () -> ()
  }
  func.return
}

// -----

// Only a maximum has a count or a condition, and it needs one.

func.func @f(%a: tensor<f32>) {
  // expected-error@+1 {{op.loop: a loop up to 3 should have a count or a condition}}
  %b = op.loop up to 3 carries(%a : tensor<f32>) -> tensor<f32> {
  ^bb0(%i: tensor<i64>, %c: tensor<f32>):
    op.yield %c : tensor<f32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<f32>, %n: tensor<i64>) {
  // expected-error@+1 {{op.loop: a loop of 3 iterations has no count and no condition, one up to 3 does}}
  %b = op.loop 3 count(%n) carries(%a : tensor<f32>) -> tensor<f32> {
  ^bb0(%i: tensor<i64>, %c: tensor<f32>):
    op.yield %c : tensor<f32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<f32>) {
  // expected-error@+1 {{op.loop: it is known that 3 iterations are made}}
  %b, %n = op.loop 3 carries(%a : tensor<f32>) made -> tensor<f32>, tensor<i64> {
  ^bb0(%i: tensor<i64>, %c: tensor<f32>):
    op.yield %c : tensor<f32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<f32>, %n: tensor<i64>) {
  // expected-error@+1 {{op.loop: the maximum of iterations should be at least 1}}
  %b = op.loop up to 0 count(%n) carries(%a : tensor<f32>) -> tensor<f32> {
  ^bb0(%i: tensor<i64>, %c: tensor<f32>):
    op.yield %c : tensor<f32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<i1>) {
  // expected-error@+1 {{op.loop: a loop with a condition does not go backward: its last number is not known before}}
  %b = op.loop up to 3 while(%a) backward -> tensor<i1> {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>):
    op.yield %c : tensor<i1>
  }
  func.return
}

// -----

func.func @f(%a: tensor<i1>) {
  // expected-error@+1 {{op.loop: the result's type should be tensor<i64>, got tensor<i32>}}
  %b, %made = op.loop up to 3 while(%a) made -> tensor<i1>, tensor<i32> {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>):
    op.yield %c : tensor<i1>
  }
  func.return
}

// -----

// A condition, and a count, is one number, before an iteration and after it.

func.func @f(%a: tensor<2xi1>) {
  // expected-error@+1 {{operand is used with type tensor<i1>, but has been previously used or defined with type tensor<2xi1>}}
  %b = op.loop up to 3 while(%a) -> tensor<i1> {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>):
    op.yield %c : tensor<i1>
  }
  func.return
}

// -----

func.func @f(%n: tensor<1xi64>) {
  // expected-error@+1 {{operand is used with type tensor<i64>, but has been previously used or defined with type tensor<1xi64>}}
  op.loop up to 3 count(%n) {
  ^bb0(%i: tensor<i64>):
    op.yield
  }
  func.return
}

// -----

func.func @f(%a: tensor<i1>) {
  // expected-error@+1 {{op.loop: the condition is tensor<i1> before an iteration, tensor<1xi1> after it}}
  %b = op.loop up to 3 while(%a) -> tensor<i1> {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>):
    %d = op.reshape %c to [1] : tensor<i1> -> tensor<1xi1>
    op.yield %d : tensor<1xi1>
  }
  func.return
}

// -----

// What is stacked has places of 64 bits.

func.func @f() {
  // expected-error@+1 {{op.loop: the stacked results of 1152921504606846976 iterations take 9223372036854775808 bytes, more than the 9223372036854775807 of any memory}}
  %a = op.loop 1152921504606846976 -> tensor<1152921504606846976xi64> {
  ^bb0(%i: tensor<i64>):
    op.yield %i : tensor<i64>
  }
  func.return
}

// -----

// A body has ops that act once an iteration, and nothing of the job.

func.func @f(%a: tensor<4xf32>) {
  %b = op.loop 2 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{op.acc cannot be part of an iteration: all ops of a body act once each time it runs}}
    %d = op.acc %c every 2 : tensor<4xf32> -> tensor<4xf32>
    op.yield %d : tensor<4xf32>
  }
  func.return
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{op.repeat cannot be part of an iteration: all ops of a body act once each time it runs}}
    %d = op.repeat %c times 2 : tensor<4xf32> -> tensor<4xf32>
    op.yield %c : tensor<4xf32>
  }
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{op.pack cannot be part of an iteration: all ops of a body act once each time it runs}}
    %d = op.pack %c by 2 : tensor<4xf32> -> tensor<8xf32>
    op.yield %c : tensor<4xf32>
  }
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{op.unpack cannot be part of an iteration: all ops of a body act once each time it runs}}
    %d = op.unpack %c by 2 : tensor<4xf32> -> tensor<2xf32>
    op.yield %c : tensor<4xf32>
  }
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{job.input cannot be part of an iteration: let the body read its value}}
    %d = job.input "x" : tensor<4xf32>
    op.yield %c : tensor<4xf32>
  }
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{job.variable cannot be part of an iteration: let the body read its value}}
    %d = job.variable "v" init <zeros> : tensor<4xf32>
    op.yield %c : tensor<4xf32>
  }
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{job.output cannot be part of an iteration: carry the value out, it is an output after}}
    job.output "y", %c : tensor<4xf32>
    op.yield %c : tensor<4xf32>
  }
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{job.assign cannot be part of an iteration: carry the value out, assign after}}
    job.assign %c to %c : tensor<4xf32>
    op.yield %c : tensor<4xf32>
  }
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{job.foreign_input cannot be part of an iteration: callbacks take part once in a run of the job}}
    %d = job.foreign_input "b" : tensor<4xf32>
    op.yield %c : tensor<4xf32>
  }
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{job.foreign_output cannot be part of an iteration: callbacks take part once in a run of the job}}
    job.foreign_output "b", %c : tensor<4xf32>
    op.yield %c : tensor<4xf32>
  }
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{job.callback_notify cannot be part of an iteration: callbacks take part once in a run of the job}}
    job.callback_notify "b", %i
    op.yield %c : tensor<4xf32>
  }
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{job.source_tick cannot be part of an iteration: ticks are of the whole job}}
    job.source_tick "s"
    op.yield %c : tensor<4xf32>
  }
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{job.sink_tick cannot be part of an iteration: ticks are of the whole job}}
    job.sink_tick "s"
    op.yield %c : tensor<4xf32>
  }
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{func.func cannot be part of an iteration}}
    func.func @g() { func.return }
    op.yield %c : tensor<4xf32>
  }
}
