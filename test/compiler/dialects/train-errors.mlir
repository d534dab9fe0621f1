// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{unknown domain 'diagonal'}}
train.loop diagonal 4 trip %t () {
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{has 2 carried values and 1 types}}
  %0:2 = train.loop sequence 4 trip %t (%a = %x, %b = %x) : tensor<?x?x8xf32, #nn.tokens> {
    train.yield %a, %b : tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>
  }
  return
}

// -----

func.func @f() {
  // expected-error @below {{'train.loop' op has chunks of 0 rows; at least 1 is needed}}
  train.loop sequence 0 trip %t () {
  }
  return
}

// -----

func.func @f() {
  // expected-error @below {{'train.loop' op needs 'over' with the domain weight_rows, and only there}}
  train.loop weight_rows 4 trip %t () {
  }
  return
}

// -----

func.func @f(%w: tensor<50x8xf32>) {
  // expected-error @below {{'train.loop' op needs 'over' with the domain weight_rows, and only there}}
  train.loop sequence 4 over %w : tensor<50x8xf32> trip %t () {
  }
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'train.loop' op has a body whose arguments are not the trip and the carried values}}
  "train.loop"(%x) <{domain = 0 : i32, size = 4 : i64, operandSegmentSizes = array<i32: 0, 1>}> ({
  ^bb0(%t: index):
    "train.yield"(%x) : (tensor<?x?x8xf32, #nn.tokens>) -> ()
  }) : (tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %y: tensor<?x?x4xf32, #nn.tokens>) {
  // expected-error @below {{'train.loop' op yields other types than it carries}}
  %0 = train.loop sequence 4 trip %t (%a = %x) : tensor<?x?x8xf32, #nn.tokens> {
    train.yield %y : tensor<?x?x4xf32, #nn.tokens>
  }
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'train.loop' op has results or carried arguments of other types than its initial values}}
  %0 = "train.loop"(%x) <{domain = 0 : i32, size = 4 : i64, operandSegmentSizes = array<i32: 0, 1>}> ({
  ^bb0(%t: index, %a: tensor<?x?x8xf32, #nn.tokens>):
    "train.yield"(%a) : (tensor<?x?x8xf32, #nn.tokens>) -> ()
  }) : (tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

func.func @f() {
  "train.loop"() <{domain = 0 : i32, size = 4 : i64, operandSegmentSizes = array<i32: 0, 0>}> ({
  ^bb0(%t: index):
    // expected-error @below {{'func.return' op expects parent op 'func.func'}}
    "func.return"() : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %t: index) {
  // expected-error @below {{'train.slice' op needs the trip of a train.loop around it}}
  %0 = train.slice %x[%t] : tensor<?x?x8xf32, #nn.tokens> -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %t: index) {
  // expected-error @below {{'train.update' op needs the trip of a train.loop around it}}
  %0 = train.update %x into %x[%t] : tensor<?x?x8xf32, #nn.tokens> into tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

// Another element, another width; rows of tokens have no number, and none of a weight's loop.
func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>) {
  train.loop sequence 4 trip %t () {
    // expected-error @below {{'train.slice' op has 'tensor<?x?x8xbf16, #nn.tokens>' for rows of 'tensor<?x?x8xf32, #nn.tokens>'}}
    %0 = train.slice %x[%t] : tensor<?x?x8xf32, #nn.tokens> -> tensor<?x?x8xbf16, #nn.tokens>
  }
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<6x8xf32>) {
  train.loop weight_rows 4 over %w : tensor<6x8xf32> trip %t () {
    // expected-error @below {{'train.slice' op takes rows of tokens, 'tensor<?x?x8xf32, #nn.tokens>', in a loop over weight_rows}}
    %0 = train.slice %x[%t] : tensor<?x?x8xf32, #nn.tokens> -> tensor<?x?x8xf32, #nn.tokens>
  }
  return
}

// -----

func.func @f(%w: tensor<6x8xf32>) {
  train.loop weight_rows 4 over %w : tensor<6x8xf32> trip %t () {
    // expected-error @below {{'train.slice' op has 'tensor<?x4xf32>' for rows of 'tensor<6x8xf32>'}}
    %0 = train.slice %w[%t] : tensor<6x8xf32> -> tensor<?x4xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %y: tensor<?x?x4xf32, #nn.tokens>) {
  %0 = train.loop sequence 4 trip %t (%whole = %x) : tensor<?x?x8xf32, #nn.tokens> {
    // expected-error @below {{'train.update' op has 'tensor<?x?x4xf32, #nn.tokens>' for rows of 'tensor<?x?x8xf32, #nn.tokens>'}}
    %1 = train.update %y into %whole[%t] : tensor<?x?x4xf32, #nn.tokens> into tensor<?x?x8xf32, #nn.tokens>
    train.yield %1 : tensor<?x?x8xf32, #nn.tokens>
  }
  return
}

// -----

// expected-error @below {{'train.block' op binds @w, which is not an nn.parameter}}
train.block layer @layer parameters ("w" = @w) programs {}

// -----

// expected-error @below {{'train.block' op has "forward" = @nope, which is not there}}
train.block layer @layer parameters () programs {forward = @nope}

// -----

// expected-error @below {{'train.block' op has "backward" = @f, which has no body}}
train.block layer @layer parameters () programs {backward = @f}
func.func private @f(%x: tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>

// -----

// expected-error @below {{'train.block' op has "loss" = @f, which needs an argument and a result}}
train.block head @head parameters () programs {loss = @f}
func.func private @f() {
  return
}

// -----

// expected-error @below {{'train.block' op binds no parameter "p7", which 'f' asks for}}
train.block layer @layer parameters () programs {forward = @f}
func.func private @f(%x: tensor<?x?x8xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">},
    %w: tensor<8x8xf32> {train.port = #train.port<parameter, "p7">}) -> (tensor<?x?x8xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  return %x : tensor<?x?x8xf32, #nn.tokens>
}

// -----

// expected-error @below {{'func.func' op has train.port = "bananas", which means nothing there}}
func.func private @f(%x: tensor<?x?x8xf32, #nn.tokens> {train.port = "bananas"})

// -----

// expected-error @below {{'func.func' op has train.port = #train.port<result, "loss">, which means nothing there}}
func.func private @f(%x: tensor<?x?x8xf32, #nn.tokens> {train.port = #train.port<result, "loss">})

// -----

// expected-error @below {{'func.func' op has train.port = #train.port<batch, "labels">, which means nothing there}}
func.func private @f() -> (tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "labels">})

// -----

// expected-error @below {{'train.block' op binds "w" twice}}
train.block layer @layer parameters ("w" = @w, "w" = @w) programs {}
nn.parameter @w : tensor<8x8xf32>

// -----

// expected-error @below {{'train.block' op has 1 names for 0 parameters}}
"train.block"() <{kind = 1 : i32, parameter_names = ["w"], parameters = [], programs = {}, sym_name = "layer"}> : () -> ()

// -----

// expected-error @below {{'train.block' op has the program "forward" = "f", which is no symbol}}
train.block layer @layer parameters () programs {forward = "f"}

// -----

// expected-error @below {{'func.func' op has train.trainable = 1 : i64, which means nothing there}}
func.func private @f(%w: tensor<8x8xf32> {train.trainable = 1 : i64})
