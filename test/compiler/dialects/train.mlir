// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s | mebp-opt | FileCheck %s
// RUN: mebp-opt %s --mlir-print-op-generic | mebp-opt | FileCheck %s

nn.parameter @w : tensor<8x8xf32>
// CHECK: train.block layer @model.layers.0 parameters ("w" = @w) programs {forward = @forward}
train.block layer @"model.layers.0" parameters ("w" = @w) programs {forward = @forward}

// CHECK-LABEL: func.func private @forward
func.func private @forward(%x: tensor<?x?x8xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">},
                           %w: tensor<8x8xf32> {train.port = #train.port<parameter, "w">})
    -> (tensor<?x?x8xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  // CHECK: %[[EMPTY:.*]] = train.empty : tensor<?x?x8xf32, #nn.tokens>
  %empty = train.empty : tensor<?x?x8xf32, #nn.tokens>
  // CHECK: %[[LOOP:.*]] = train.loop sequence 64 trip %[[TRIP:.*]] (%[[Y:.*]] = %[[EMPTY]]) : tensor<?x?x8xf32, #nn.tokens> {
  %y = train.loop sequence 64 trip %t (%carried = %empty) : tensor<?x?x8xf32, #nn.tokens> {
    // CHECK: %[[ROWS:.*]] = train.slice %{{.*}}[%[[TRIP]]] : tensor<?x?x8xf32, #nn.tokens> -> tensor<?x?x8xf32, #nn.tokens>
    %rows = train.slice %x[%t] : tensor<?x?x8xf32, #nn.tokens> -> tensor<?x?x8xf32, #nn.tokens>
    // CHECK: %[[NEXT:.*]] = train.update %[[ROWS]] into %[[Y]][%[[TRIP]]] : tensor<?x?x8xf32, #nn.tokens> into tensor<?x?x8xf32, #nn.tokens>
    %next = train.update %rows into %carried[%t] : tensor<?x?x8xf32, #nn.tokens> into tensor<?x?x8xf32, #nn.tokens>
    // CHECK: train.yield %[[NEXT]] : tensor<?x?x8xf32, #nn.tokens>
    train.yield %next : tensor<?x?x8xf32, #nn.tokens>
  }
  // CHECK: return %[[LOOP]]
  return %y : tensor<?x?x8xf32, #nn.tokens>
}

// A loop over a weight names it; loops nest, and one that carries nothing needs no yield.
// CHECK-LABEL: func.func @nested
func.func @nested(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>) {
  // CHECK: train.loop token_rows 4 trip %[[OUTER:.*]] () {
  train.loop token_rows 4 trip %t () {
    %rows = train.slice %x[%t] : tensor<?x?x8xf32, #nn.tokens> -> tensor<?x?x8xf32, #nn.tokens>
    // CHECK: train.loop weight_rows 16 over %{{.*}} : tensor<50x8xf32> trip %[[INNER:.*]] () attributes {note = "kept"} {
    train.loop weight_rows 16 over %w : tensor<50x8xf32> trip %v () attributes {note = "kept"} {
      // CHECK: train.slice %{{.*}}[%[[INNER]]] : tensor<50x8xf32> -> tensor<?x8xf32>
      %tile = train.slice %w[%v] : tensor<50x8xf32> -> tensor<?x8xf32>
      // CHECK: train.slice %{{.*}}[%[[OUTER]]]
      %again = train.slice %x[%t] : tensor<?x?x8xf32, #nn.tokens> -> tensor<?x?x8xf32, #nn.tokens>
      // CHECK-NOT: train.yield
    }
  }
  // CHECK: train.loop sequence_reversed 1 trip
  train.loop sequence_reversed 1 trip %t () {
  }
  return
}
