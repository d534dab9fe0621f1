// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s | mebp-opt | FileCheck %s
// RUN: mebp-opt %s --mlir-print-op-generic | mebp-opt | FileCheck %s

nn.parameter @w : tensor<8x8xf32>
// CHECK: train.block layer @model.layers.0 parameters ("w" = @w) programs {forward = @forward}
train.block layer @"model.layers.0" parameters ("w" = @w) programs {forward = @forward}

// CHECK-LABEL: func.func private @forward
func.func private @forward(%x: tensor<?x?x8xf32> {train.port = #train.port<flow, "hidden">},
                           %w: tensor<8x8xf32> {train.port = #train.port<parameter, "w">})
    -> (tensor<?x?x8xf32> {train.port = #train.port<flow, "hidden">}) {
  // CHECK: %[[EMPTY:.*]] = train.empty : tensor<?x?x8xf32>
  %empty = train.empty : tensor<?x?x8xf32>
  // CHECK: %[[LOOP:.*]] = train.loop sequence 64 trip %[[TRIP:.*]] (%[[Y:.*]] = %[[EMPTY]]) : tensor<?x?x8xf32> {
  %y = train.loop sequence 64 trip %t (%carried = %empty) : tensor<?x?x8xf32> {
    // CHECK: %[[ROWS:.*]] = train.slice %{{.*}}[%[[TRIP]]] : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
    %rows = train.slice %x[%t] : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
    // CHECK: %[[NEXT:.*]] = train.update %[[ROWS]] into %[[Y]][%[[TRIP]]] : tensor<?x?x8xf32> into tensor<?x?x8xf32>
    %next = train.update %rows into %carried[%t] : tensor<?x?x8xf32> into tensor<?x?x8xf32>
    // CHECK: train.yield %[[NEXT]] : tensor<?x?x8xf32>
    train.yield %next : tensor<?x?x8xf32>
  }
  // CHECK: return %[[LOOP]]
  return %y : tensor<?x?x8xf32>
}

// A loop over a weight names it; loops nest, and one that carries nothing needs no yield.
// CHECK-LABEL: func.func @nested
func.func @nested(%x: tensor<?x?x8xf32>, %w: tensor<50x8xf32>) {
  // CHECK: train.loop token_rows 4 trip %[[OUTER:.*]] () {
  train.loop token_rows 4 trip %t () {
    %rows = train.slice %x[%t] : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
    // CHECK: train.loop weight_rows 16 over %{{.*}} : tensor<50x8xf32> trip %[[INNER:.*]] () attributes {note = "kept"} {
    train.loop weight_rows 16 over %w : tensor<50x8xf32> trip %v () attributes {note = "kept"} {
      // CHECK: train.slice %{{.*}}[%[[INNER]]] : tensor<50x8xf32> -> tensor<?x8xf32>
      %tile = train.slice %w[%v] : tensor<50x8xf32> -> tensor<?x8xf32>
      // CHECK: train.slice %{{.*}}[%[[OUTER]]]
      %again = train.slice %x[%t] : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
      // CHECK-NOT: train.yield
    }
  }
  // CHECK: train.loop sequence_reversed 1 trip
  train.loop sequence_reversed 1 trip %t () {
  }
  return
}
