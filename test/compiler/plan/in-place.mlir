// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-place-values | FileCheck %s

// Each trip reads its own rows before it writes them.
// CHECK: exec.program @chunks {{.*}}] in_place {
exec.program @chunks inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32, #exec.extent<-1, -2>>):
  %empty = train.empty : tensor<4x8xf32, #exec.extent<-1, -2>>
  %y = train.loop sequence 2 trip %t (%c = %empty) : tensor<4x8xf32, #exec.extent<-1, -2>> {
    %rows = train.slice %x[%t] : tensor<4x8xf32, #exec.extent<-1, -2>> -> tensor<2x8xf32, #exec.extent<0, -2>>
    %a = exec.kernel "silu"(%rows) slots [0] ties [-1] reuses [-1] {} : (tensor<2x8xf32, #exec.extent<0, -2>>) -> tensor<2x8xf32, #exec.extent<0, -2>>
    %b = exec.kernel "add"(%a, %rows) slots [0, 1] ties [-1] reuses [-1] {} : (tensor<2x8xf32, #exec.extent<0, -2>>, tensor<2x8xf32, #exec.extent<0, -2>>) -> tensor<2x8xf32, #exec.extent<0, -2>>
    %next = train.update %b into %c[%t] : tensor<2x8xf32, #exec.extent<0, -2>> into tensor<4x8xf32, #exec.extent<-1, -2>>
    train.yield %next : tensor<4x8xf32, #exec.extent<-1, -2>>
  }
  exec.return %y : tensor<4x8xf32, #exec.extent<-1, -2>>
}

// It is the cotangent that is replaced; the activation may be read at any time.
// CHECK: exec.program @cotangent {{.*}}] in_place {
exec.program @cotangent inputs [#train.port<flow, "hidden">, #train.port<flow, "hidden.cotangent">] outputs [#train.port<flow, "hidden.cotangent">] {
^bb0(%x: tensor<4x8xf32, #exec.extent<-1, -2>>, %dy: tensor<4x8xf32, #exec.extent<-1, -2>>):
  %a = exec.kernel "silu"(%dy) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32, #exec.extent<-1, -2>>) -> tensor<4x8xf32, #exec.extent<-1, -2>>
  %empty = train.empty : tensor<4x8xf32, #exec.extent<-1, -2>>
  %dx = train.loop sequence_reversed 2 trip %t (%c = %empty) : tensor<4x8xf32, #exec.extent<-1, -2>> {
    %rows = train.slice %a[%t] : tensor<4x8xf32, #exec.extent<-1, -2>> -> tensor<2x8xf32, #exec.extent<0, -2>>
    %b = exec.kernel "linear"(%rows, %x) slots [0, 1] ties [-1] reuses [-1] {} : (tensor<2x8xf32, #exec.extent<0, -2>>, tensor<4x8xf32, #exec.extent<-1, -2>>) -> tensor<2x8xf32, #exec.extent<0, -2>>
    %next = train.update %b into %c[%t] : tensor<2x8xf32, #exec.extent<0, -2>> into tensor<4x8xf32, #exec.extent<-1, -2>>
    train.yield %next : tensor<4x8xf32, #exec.extent<-1, -2>>
  }
  exec.return %dx : tensor<4x8xf32, #exec.extent<-1, -2>>
}

// A later trip reads rows that an earlier one has written.
// CHECK: exec.program @whole_in_a_trip {{.*}}] {
exec.program @whole_in_a_trip inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32, #exec.extent<-1, -2>>):
  %empty = train.empty : tensor<4x8xf32, #exec.extent<-1, -2>>
  %y = train.loop sequence 2 trip %t (%c = %empty) : tensor<4x8xf32, #exec.extent<-1, -2>> {
    %rows = train.slice %x[%t] : tensor<4x8xf32, #exec.extent<-1, -2>> -> tensor<2x8xf32, #exec.extent<0, -2>>
    %a = exec.kernel "linear"(%rows, %x) slots [0, 1] ties [-1] reuses [-1] {} : (tensor<2x8xf32, #exec.extent<0, -2>>, tensor<4x8xf32, #exec.extent<-1, -2>>) -> tensor<2x8xf32, #exec.extent<0, -2>>
    %next = train.update %a into %c[%t] : tensor<2x8xf32, #exec.extent<0, -2>> into tensor<4x8xf32, #exec.extent<-1, -2>>
    train.yield %next : tensor<4x8xf32, #exec.extent<-1, -2>>
  }
  exec.return %y : tensor<4x8xf32, #exec.extent<-1, -2>>
}

// The rows are read again after they were written.
// CHECK: exec.program @read_after_the_update {{.*}}] {
exec.program @read_after_the_update inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">, #train.port<result, "loss">] {
^bb0(%x: tensor<4x8xf32, #exec.extent<-1, -2>>):
  %empty = train.empty : tensor<4x8xf32, #exec.extent<-1, -2>>
  %zero = exec.kernel "fill"() slots [] ties [-1] reuses [-1] {} : () -> tensor<4x8xf32, #exec.extent<-1, -2>>
  %y:2 = train.loop sequence 2 trip %t (%c = %empty, %d = %zero) : tensor<4x8xf32, #exec.extent<-1, -2>>, tensor<4x8xf32, #exec.extent<-1, -2>> {
    %rows = train.slice %x[%t] : tensor<4x8xf32, #exec.extent<-1, -2>> -> tensor<2x8xf32, #exec.extent<0, -2>>
    %a = exec.kernel "silu"(%rows) slots [0] ties [-1] reuses [-1] {} : (tensor<2x8xf32, #exec.extent<0, -2>>) -> tensor<2x8xf32, #exec.extent<0, -2>>
    %next = train.update %a into %c[%t] : tensor<2x8xf32, #exec.extent<0, -2>> into tensor<4x8xf32, #exec.extent<-1, -2>>
    %b = exec.kernel "silu"(%rows) slots [0] ties [-1] reuses [-1] {} : (tensor<2x8xf32, #exec.extent<0, -2>>) -> tensor<2x8xf32, #exec.extent<0, -2>>
    %other = train.update %b into %d[%t] : tensor<2x8xf32, #exec.extent<0, -2>> into tensor<4x8xf32, #exec.extent<-1, -2>>
    train.yield %next, %other : tensor<4x8xf32, #exec.extent<-1, -2>>, tensor<4x8xf32, #exec.extent<-1, -2>>
  }
  exec.return %y#0, %y#1 : tensor<4x8xf32, #exec.extent<-1, -2>>, tensor<4x8xf32, #exec.extent<-1, -2>>
}

// A kernel that reads the input writes the output: not every kernel could.
// CHECK: exec.program @one_kernel {{.*}}] {
exec.program @one_kernel inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32, #exec.extent<-1, -2>>):
  %y = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32, #exec.extent<-1, -2>>) -> tensor<4x8xf32, #exec.extent<-1, -2>>
  exec.return %y : tensor<4x8xf32, #exec.extent<-1, -2>>
}

// Rows beyond the trip's would be lost before they are read.
// CHECK: exec.program @filled_first {{.*}}] {
exec.program @filled_first inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32, #exec.extent<-1, -2>>):
  %zero = exec.kernel "fill"() slots [] ties [-1] reuses [-1] {} : () -> tensor<4x8xf32, #exec.extent<-1, -2>>
  %y = train.loop sequence 2 trip %t (%c = %zero) : tensor<4x8xf32, #exec.extent<-1, -2>> {
    %rows = train.slice %x[%t] : tensor<4x8xf32, #exec.extent<-1, -2>> -> tensor<2x8xf32, #exec.extent<0, -2>>
    %a = exec.kernel "silu"(%rows) slots [0] ties [-1] reuses [-1] {} : (tensor<2x8xf32, #exec.extent<0, -2>>) -> tensor<2x8xf32, #exec.extent<0, -2>>
    %next = train.update %a into %c[%t] : tensor<2x8xf32, #exec.extent<0, -2>> into tensor<4x8xf32, #exec.extent<-1, -2>>
    train.yield %next : tensor<4x8xf32, #exec.extent<-1, -2>>
  }
  exec.return %y : tensor<4x8xf32, #exec.extent<-1, -2>>
}

// What goes out does not fit what comes in.
// CHECK: exec.program @another_type {{.*}}] {
exec.program @another_type inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32, #exec.extent<-1, -2>>):
  %a = exec.kernel "linear"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32, #exec.extent<-1, -2>>) -> tensor<4x9xf32>
  %y = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [-1] {} : (tensor<4x9xf32>) -> tensor<4x9xf32>
  exec.return %y : tensor<4x9xf32>
}
