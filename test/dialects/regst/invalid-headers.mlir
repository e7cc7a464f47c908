// RUN: penstock-opt %s --verify-diagnostics --split-input-file

!d = !regst.data<tensor<?x4xf32>, max [8, 4]>
!s = !regst.data<tensor<2xi64>>

plan.plan @missing {
  // expected-error@+1 {{regst.register: register 'x' has a dynamic shape, but no header for it}}
  %x = regst.register "x" slots 1 on <0, host> : !d
}

// -----

!d = !regst.data<tensor<?x4xf32>, max [8, 4]>
!s = !regst.data<tensor<2xi64>>

plan.plan @two {
  %x = regst.register "x" slots 1 on <0, host> : !d
  %h = regst.register "h" slots 1 header "x" on <0, host> : !s
  // expected-error@+1 {{regst.register: 'x' has two headers, 'h' and 'g'}}
  %g = regst.register "g" slots 1 header "x" on <0, host> : !s
}

// -----

plan.plan @static {
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  // expected-error@+1 {{regst.register: 'h' is the header of 'x', which has no dynamic shape}}
  %h = regst.register "h" slots 1 header "x" on <0, host> : !regst.data<tensor<1xi64>>
}

// -----

plan.plan @of_nothing {
  // expected-error@+1 {{regst.register: 'h' is the header of 'x', which has no dynamic shape}}
  %h = regst.register "h" slots 1 header "x" on <0, host> : !regst.data<tensor<1xi64>>
}

// -----

plan.plan @type {
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<?x4xf32>, max [8, 4]>
  // expected-error@+1 {{regst.register: the header of 'x' should be !regst.data<tensor<2xi64>>, got !regst.data<tensor<2xi32>>}}
  %h = regst.register "h" slots 1 header "x" on <0, host> : !regst.data<tensor<2xi32>>
}

// -----

plan.plan @slots {
  %x = regst.register "x" slots 2 on <0, host> : !regst.data<tensor<?x4xf32>, max [8, 4]>
  // expected-error@+1 {{regst.register: 'x' has 2 slots, but its header 1}}
  %h = regst.register "h" slots 1 header "x" on <0, host> : !regst.data<tensor<2xi64>>
}

// -----

// What lies on a device has its header in memory that is pinned for it.

plan.plan @memory {
  %x = regst.register "x" slots 1 on <0, device cuda:1> : !regst.data<tensor<?x4xf32>, max [8, 4]>
  // expected-error@+1 {{regst.register: the header of 'x' should be on #regst.memory_case<0, pinned cuda:1>, got #regst.memory_case<0, host>}}
  %h = regst.register "h" slots 1 header "x" on <0, host> : !regst.data<tensor<2xi64>>
}

// -----

// expected-error@+1 {{regst.register: a header lies in memory of the host, got #regst.memory_case<0, device cuda:1>}}
%h = regst.register "h" slots 1 header "x" on <0, device cuda:1> : !regst.data<tensor<2xi64>>

// -----

// expected-error@+1 {{regst.register: a header is neither an alias nor an interface}}
%h = regst.register "h" slots 1 interface "h" header "x" on <0, host> : !regst.data<tensor<2xi64>>

// -----

%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<2xi64>>
// expected-error@+1 {{regst.register: a header is neither an alias nor an interface}}
%h = regst.register "h" alias %x : !regst.data<tensor<2xi64>> slots 1 header "x" on <0, host> : !regst.data<tensor<2xi64>>

// -----

// expected-error@+1 {{regst.register: no task names a header, and it has no aliases}}
%h = regst.register "h" slots 1 header "x" on <0, host> : !regst.data<tensor<2xi64>>
%a = regst.register "a" alias %h : !regst.data<tensor<2xi64>> slots 1 on <0, host> : !regst.data<tensor<2xi64>>
