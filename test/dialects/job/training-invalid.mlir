// RUN: penstock-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{no optimizer 'adamv', did you mean 'adam'? (penstock-opt --list optimizer names them)}}
"test.op"() {of = #job.optimizer<adamv>} : () -> ()

// -----

// expected-error @below {{optimizer 'adamw' does not take beta, lr}}
"test.op"() {of = #job.optimizer<adamw, lr = 0.1, beta = 0.9>} : () -> ()

// -----

// expected-error @below {{schedule 'cosine' needs base, total}}
"test.op"() {of = #job.schedule<cosine>} : () -> ()

// -----

// expected-error @below {{'rate' must be a number, got True}}
"test.op"() {of = #job.optimizer<sgd, rate = true>} : () -> ()

// -----

// expected-error @below {{'nesterov' must be true or false, got 1}}
"test.op"() {of = #job.optimizer<momentum, nesterov = 1>} : () -> ()

// -----

// expected-error @below {{'total' must be an integer, got 3.5}}
"test.op"() {of = #job.schedule<cosine, base = 1.0, total = 3.5>} : () -> ()

// -----

// expected-error @below {{'clip_group' must be a text, got 1}}
"test.op"() {of = #job.optimizer<sgd, clip_group = 1>} : () -> ()

// -----

// expected-error @below {{'milestones' must be a list of integers, got 3}}
"test.op"() {of = #job.schedule<multistep, base = 1.0, milestones = 3>} : () -> ()

// -----

// expected-error @below {{optimizer 'adam': beta2 should be in [0, 1), got 1}}
"test.op"() {of = #job.optimizer<adam, beta2 = 1.0>} : () -> ()

// -----

// expected-error @below {{optimizer 'sgd': clip_norm should be from 0 on, got -1}}
"test.op"() {of = #job.optimizer<sgd, clip_norm = -1>} : () -> ()

// -----

// expected-error @below {{optimizer 'momentum': nesterov needs a momentum and no dampening}}
"test.op"() {of = #job.optimizer<momentum, nesterov = true, dampening = 0.5>} : () -> ()

// -----

// expected-error @below {{optimizer 'sparse_adam': weights without gradients do not decay}}
"test.op"() {of = #job.optimizer<sparse_adam, weight_decay = 0.1>} : () -> ()

// -----

// expected-error @below {{schedule 'constant': base should not be negative, got -1}}
"test.op"() {of = #job.schedule<constant, base = -1.0>} : () -> ()

// -----

// expected-error @below {{schedule 'constant': warmup should not be negative, got -1}}
"test.op"() {of = #job.schedule<constant, base = 1.0, warmup = -1>} : () -> ()

// -----

// expected-error @below {{schedule 'step': every should be positive, got 0}}
"test.op"() {of = #job.schedule<step, base = 1.0, every = 0>} : () -> ()

// -----

// expected-error @below {{schedule 'linear': total should be more than 0, got 0}}
"test.op"() {of = #job.schedule<linear, base = 1.0, total = 0>} : () -> ()

// -----

// expected-error @below {{schedule 'linear': total should be more than those of the warm-up, 10, got 5}}
"test.op"() {of = #job.schedule<linear, base = 1.0, total = 5, warmup = 10>} : () -> ()

// -----

// expected-error @below {{'rate' is given twice}}
"test.op"() {of = #job.optimizer<sgd, rate = 1.0, rate = 2.0>} : () -> ()

// -----

job.job @integers placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xi64>
  // expected-error @below {{only variables of floats are updated, got i64}}
  job.update %w by %w with <sgd> : tensor<4xi64>
}

// -----

job.job @twice placement <cpu, [0:0]> {
  %r = job.input "r" : tensor<f32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  // expected-error @below {{the rate is given twice}}
  job.update %w by %w with <sgd, rate = 0.5> rate %r : tensor<4xf32>
}

// -----

job.job @narrow placement <cpu, [0:0]> {
  %r = job.input "r" : tensor<f32>
  %w = job.variable "w" init <ones> : tensor<4xf64>
  // expected-error @below {{a rate or scale should be tensor<f64>, got tensor<f32>}}
  "job.update"(%w, %w, %r) <{optimizer = #job.optimizer<sgd>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> : (tensor<4xf64>, tensor<4xf64>, tensor<f32>) -> ()
}
