// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-lower-to-exec="batch=2 sequence=10" | FileCheck %s
// RUN: mebp-opt %s --mebp-lower-to-exec="batch=2 sequence=3" | FileCheck %s --check-prefix=SHORT

!x = tensor<?x?x4xf32, #nn.tokens>

// Tokens are rows, as many as batch * sequence at most; vectors are matrices of one row. Operands have
// the names of the kernel's slots, of which an optional one may be absent.
// CHECK-LABEL: exec.program @operands
// CHECK-SAME: inputs [#train.port<flow, "hidden">, #train.port<parameter, "p1">, #train.port<parameter, "p0">]
// CHECK-SAME: outputs [#train.port<flow, "hidden.cotangent">, #train.port<gradient, "p1">]
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<20x4xf32, #exec.extent<tokens, whole>>, %[[W:.*]]: tensor<4x4xf32>, %[[B:.*]]: tensor<1x4xf32>):
// CHECK-NEXT: exec.kernel "linear"(x = %[[X]], w = %[[W]]) {alpha = 1.000000e+00 : f32}
// CHECK-NEXT: exec.kernel "linear"(x = %[[X]], w = %[[W]], bias = %[[B]])
// CHECK-NEXT: %[[Y:.*]] = exec.kernel "linear"(x = %[[X]], w = %[[W]], addend = %{{.*}})
// CHECK-NEXT: exec.kernel "linear"(x = %[[X]], w = %[[W]], addend = %[[X]])
// CHECK-NEXT: exec.kernel "linear_input_gradient"(dy = %[[X]], w = %[[W]], addend = %[[X]])
// CHECK-NEXT: %[[DW:.*]] = exec.kernel "linear_weight_gradient"(dy = %[[X]], x = %[[X]])
// CHECK-SAME: -> tensor<4x4xf32>
// CHECK-NEXT: %[[SUM:.*]] = exec.kernel "linear_weight_gradient"(dy = %[[X]], x = %[[X]], accumulator = %[[DW]])
// CHECK-NEXT: exec.return %[[Y]], %[[SUM]]
func.func private @operands(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "p1">},
    %b: tensor<4xf32> {train.port = #train.port<parameter, "p0">})
    -> (!x {train.port = #train.port<flow, "hidden.cotangent">}, tensor<4x4xf32> {train.port = #train.port<gradient, "p1">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x
  %1 = nn.linear(%x, %w bias %b) : (!x, tensor<4x4xf32>, tensor<4xf32>) -> !x
  %2 = nn.linear(%x, %w addend %0) : (!x, tensor<4x4xf32>, !x) -> !x
  %3 = nn.linear(%x, %w addend %x) : (!x, tensor<4x4xf32>, !x) -> !x
  %4 = nn.linear_input_gradient(%x, %w addend %x) : (!x, tensor<4x4xf32>, !x) -> !x
  %5 = nn.linear_weight_gradient(%x, %x) : (!x, !x) -> tensor<4x4xf32>
  %6 = nn.linear_weight_gradient(%x, %x, %5) : (!x, !x, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2, %6 : !x, tensor<4x4xf32>
}

// A chunk has as many rows as its loop, up to the sequence; what is made in a loop out of nothing has its rows, too.
// CHECK-LABEL: exec.program @chunks
// CHECK: train.loop sequence 4 trip %[[T:.*]] (%{{.*}} = %{{.*}}) : tensor<20x4xf32, #exec.extent<tokens, whole>> {
// CHECK-NEXT: train.slice %{{.*}}[%[[T]]] : tensor<20x4xf32, #exec.extent<tokens, whole>> -> tensor<4x4xf32, #exec.extent<chunk, whole>>
// CHECK-NEXT: exec.kernel "fill"() {value = 1.000000e+00 : f32} : () -> tensor<4x4xf32, #exec.extent<chunk, whole>>
// CHECK-NEXT: exec.kernel "add"(a = %{{.*}}, b = %{{.*}}) {}
// CHECK-NEXT: train.update %{{.*}} into %{{.*}}[%[[T]]] : tensor<4x4xf32, #exec.extent<chunk, whole>> into tensor<20x4xf32, #exec.extent<tokens, whole>>
// SHORT-LABEL: exec.program @chunks
// SHORT: train.loop sequence 3 trip
// SHORT-NEXT: -> tensor<3x4xf32, #exec.extent<chunk, whole>>
func.func private @chunks(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %empty = train.empty : !x
  %y = train.loop sequence 4 trip %t (%c = %empty) : !x {
    %0 = train.slice %x[%t] : !x -> !x
    %1 = nn.fill() {value = 1.0 : f32} : () -> !x
    %2 = nn.add(%0, %1) : (!x, !x) -> !x
    %3 = train.update %2 into %c[%t] : !x into !x
    train.yield %3 : !x
  }
  return %y : !x
}

// Rows of a weight become columns of the logits; elements of a vector are
// sliced as its columns.
// CHECK-LABEL: exec.program @tiles
// CHECK: train.loop token_rows 16 trip
// CHECK: tensor<16x4xf32, #exec.extent<chunk, whole>>
// CHECK: train.loop weight_rows 32 over %{{.*}} : tensor<50x4xf32> trip
// CHECK-NEXT: -> tensor<32x4xf32, #exec.extent<tile, whole>>
// CHECK-NEXT: : tensor<1x50xf32> -> tensor<1x32xf32, #exec.extent<whole, tile>>
// CHECK-NEXT: exec.kernel "linear"{{.*}} -> tensor<16x32xf32, #exec.extent<chunk, tile>>
// CHECK-NEXT: exec.kernel "silu"{{.*}} -> tensor<16x32xf32, #exec.extent<chunk, tile>>
// SHORT-LABEL: exec.program @tiles
// SHORT: train.loop token_rows 6 trip
func.func private @tiles(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "p0">},
    %b: tensor<50xf32> {train.port = #train.port<parameter, "p1">}) {
  train.loop token_rows 16 trip %t () {
    %rows = train.slice %x[%t] : !x -> !x
    train.loop weight_rows 32 over %w : tensor<50x4xf32> trip %v () {
      %tile = train.slice %w[%v] : tensor<50x4xf32> -> tensor<?x4xf32>
      %bias = train.slice %b[%v] : tensor<50xf32> -> tensor<?xf32>
      %logits = nn.linear(%rows, %tile bias %bias) : (!x, tensor<?x4xf32>, tensor<?xf32>) -> tensor<?x?x?xf32, #nn.tokens>
      %0 = nn.silu(%logits) : (tensor<?x?x?xf32, #nn.tokens>) -> tensor<?x?x?xf32, #nn.tokens>
    }
  }
  return
}

// Learned positions are enough for exactly so many tokens.
// CHECK-LABEL: exec.program @positions
// CHECK: exec.kernel "position_embedding"{{.*}} : (tensor<10x4xf32>) -> tensor<20x4xf32, #exec.extent<tokens, whole>>
func.func private @positions(%w: tensor<10x4xf32> {train.port = #train.port<parameter, "p0">})
    -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.position_embedding(%w) : (tensor<10x4xf32>) -> !x
  return %0 : !x
}
