// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-differentiate-blocks | FileCheck %s

// One rule each: what a layer of a single op becomes. The forward op is there only where its pullback reads a result.
!x = tensor<?x?x4xf32, #nn.tokens>
!w = tensor<6x4xf32>
!v = tensor<4xf32>
// What trains below it: a backward gives the cotangent of its input for this.
nn.parameter @lowest : tensor<50x4xf32> {trainable}
train.block embed @first parameters ("lowest" = @lowest) programs {forward = @first.forward}
func.func private @first.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lowest">, train.trainable})
    -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return %e : tensor<?x?x4xf32, #nn.tokens>
}
nn.parameter @w : !w
nn.parameter @v : !v
nn.parameter @a : tensor<2x4xf32> {trainable}
nn.parameter @b : tensor<4x2xf32> {trainable}

train.block layer @linear parameters ("w" = @w) programs {forward = @linear.forward}
func.func private @linear.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: !w {train.port = #train.port<parameter, "w">}) -> (tensor<?x?x6xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %y = nn.linear(%x, %w) {alpha = 2.0 : f32} : (!x, !w) -> tensor<?x?x6xf32, #nn.tokens>
  return %y : tensor<?x?x6xf32, #nn.tokens>
}
// CHECK-LABEL: func.func private @linear.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x6xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-SAME: %[[W:[^ ]*]]: tensor<6x4xf32>
// CHECK-SAME: -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">})
// CHECK-NEXT: %[[DX:.*]] = nn.linear_input_gradient(%[[DY]], %[[W]]) {alpha = 2.000000e+00 : f32}
// CHECK-NEXT: return %[[DX]]

train.block layer @trainable_linear parameters ("a" = @a) programs {forward = @trainable_linear.forward}
func.func private @trainable_linear.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %a: tensor<2x4xf32> {train.port = #train.port<parameter, "a">, train.trainable}) -> (tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %y = nn.linear(%x, %a) {alpha = 2.0 : f32} : (!x, tensor<2x4xf32>) -> tensor<?x?x2xf32, #nn.tokens>
  return %y : tensor<?x?x2xf32, #nn.tokens>
}
// CHECK-LABEL: func.func private @trainable_linear.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-SAME: %[[A:[^ ]*]]: tensor<2x4xf32>
// CHECK-SAME: -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}, tensor<2x4xf32> {train.port = #train.port<gradient, "a">})
// CHECK-NEXT: %[[DX:.*]] = nn.linear_input_gradient(%[[DY]], %[[A]]) {alpha = 2.000000e+00 : f32}
// CHECK-NEXT: %[[DA:.*]] = nn.linear_weight_gradient(%[[DY]], %[[X]]) {alpha = 2.000000e+00 : f32} : (tensor<?x?x2xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>) -> tensor<2x4xf32>
// CHECK-NEXT: return %[[DX]], %[[DA]]

train.block layer @bias_and_addend parameters ("s" = @s, "v" = @v) programs {forward = @bias_and_addend.forward}
func.func private @bias_and_addend.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %s: tensor<4x4xf32> {train.port = #train.port<parameter, "s">},
    %v: !v {train.port = #train.port<parameter, "v">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.linear(%x, %s bias %v addend %x) : (!x, tensor<4x4xf32>, !v, !x) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @bias_and_addend.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-NEXT: %[[DX:.*]] = nn.linear_input_gradient(%[[DY]],
// CHECK-NEXT: %[[SUM:.*]] = nn.add(%[[DX]], %[[DY]])
// CHECK-NEXT: return %[[SUM]]

nn.parameter @s : tensor<4x4xf32>

// The product with the weight itself, of which x says the rows.
train.block layer @rows parameters ("a" = @a) programs {forward = @rows.forward}
func.func private @rows.forward(%x: tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">},
    %a: tensor<2x4xf32> {train.port = #train.port<parameter, "a">, train.trainable}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.linear_input_gradient(%x, %a) {alpha = 2.0 : f32} : (tensor<?x?x2xf32, #nn.tokens>, tensor<2x4xf32>) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @rows.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-SAME: %[[A:[^ ]*]]: tensor<2x4xf32>
// CHECK-NEXT: %[[DX:.*]] = nn.linear(%[[DY]], %[[A]]) {alpha = 2.000000e+00 : f32}
// CHECK-NEXT: %[[DA:.*]] = nn.linear_weight_gradient(%[[X]], %[[DY]]) {alpha = 2.000000e+00 : f32}
// CHECK-NEXT: return %[[DX]], %[[DA]]

train.block layer @rms_norm parameters ("v" = @v) programs {forward = @rms_norm.forward}
func.func private @rms_norm.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %v: !v {train.port = #train.port<parameter, "v">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.rms_norm(%x, %v) {epsilon = 0.5 : f32, weight_offset = 1.0 : f32} : (!x, !v) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @rms_norm.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-SAME: %[[V:[^ ]*]]: tensor<4xf32>
// CHECK-NEXT: %[[DX:.*]] = nn.rms_norm_input_gradient(%[[X]], %[[V]], %[[DY]]) {epsilon = 5.000000e-01 : f32, weight_offset = 1.000000e+00 : f32}
// CHECK-NEXT: return %[[DX]]

train.block layer @layer_norm parameters ("v" = @v, "bias" = @bias) programs {forward = @layer_norm.forward}
func.func private @layer_norm.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %v: !v {train.port = #train.port<parameter, "v">},
    %bias: !v {train.port = #train.port<parameter, "bias">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.layer_norm(%x, %v, %bias) {epsilon = 0.5 : f32} : (!x, !v, !v) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @layer_norm.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-SAME: %[[V:[^ ]*]]: tensor<4xf32>
// CHECK-NEXT: %[[DX:.*]] = nn.layer_norm_input_gradient(%[[X]], %[[V]], %[[DY]]) {epsilon = 5.000000e-01 : f32}
// CHECK-NEXT: return %[[DX]]

nn.parameter @bias : !v

train.block layer @rope parameters () programs {forward = @rope.forward}
func.func private @rope.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.rope(%x) {head_dim = 4 : i64, frequencies = array<f32: 1.0>, scale = 2.0 : f32} : (!x) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @rope.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-NEXT: %[[DX:.*]] = nn.rope(%[[DY]]) {frequencies = array<f32: 1.000000e+00>, head_dim = 4 : i64, inverse = true, scale = 2.000000e+00 : f32}
// CHECK-NEXT: return %[[DX]]

train.block layer @attention parameters () programs {forward = @attention.forward}
func.func private @attention.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y, %lse = nn.attention(%x, %x, %x) {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f32, window = 3 : i64} : (!x, !x, !x) -> (!x, tensor<?x?x2xf32, #nn.tokens>)
  return %y : !x
}
// CHECK-LABEL: func.func private @attention.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-NEXT: %[[O:.*]], %[[LSE:.*]] = nn.attention(%[[X]], %[[X]], %[[X]])
// CHECK-NEXT: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = nn.attention_gradient(%[[X]], %[[X]], %[[X]], %[[O]], %[[LSE]], %[[DY]]) {heads = 2 : i64, kv_heads = 2 : i64,
// CHECK-SAME: scale = 5.000000e-01 : f32, window = 3 : i64}
// CHECK-NEXT: %[[QK:.*]] = nn.add(%[[DQ]], %[[DK]])
// CHECK-NEXT: %[[QKV:.*]] = nn.add(%[[QK]], %[[DV]])
// CHECK-NEXT: return %[[QKV]]

train.block layer @slopes parameters () programs {forward = @slopes.forward}
func.func private @slopes.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y, %lse = nn.attention(%x, %x, %x) {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f32, slopes = array<f32: 0.5, 0.25>} : (!x, !x, !x) -> (!x, tensor<?x?x2xf32, #nn.tokens>)
  return %y : !x
}
// CHECK-LABEL: func.func private @slopes.backward(
// CHECK: nn.attention_gradient({{.*}}scale = 5.000000e-01 : f32, slopes = array<f32: 5.000000e-01, 2.500000e-01>}

train.block layer @both_ways parameters () programs {forward = @both_ways.forward}
func.func private @both_ways.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y, %lse = nn.bidirectional_attention(%x, %x, %x) {heads = 2 : i64, kv_heads = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5 : f32, window = 3 : i64} : (!x, !x, !x) -> (!x, tensor<?x?x2xf32, #nn.tokens>)
  return %y : !x
}
// CHECK-LABEL: func.func private @both_ways.backward(
// CHECK: nn.bidirectional_attention_gradient({{.*}}) {heads = 2 : i64, kv_heads = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>, scale = 5.000000e-01 : f32, window = 3 : i64}

train.block layer @silu parameters () programs {forward = @silu.forward}
func.func private @silu.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.silu(%x) : (!x) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @silu.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-NEXT: %[[DX:.*]] = nn.silu_gradient(%[[X]], %[[DY]])
// CHECK-NEXT: return %[[DX]]

train.block layer @relu parameters () programs {forward = @relu.forward}
func.func private @relu.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.relu(%x) : (!x) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @relu.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-NEXT: %[[DX:.*]] = nn.relu_gradient(%[[X]], %[[DY]])
// CHECK-NEXT: return %[[DX]]

train.block layer @gelu parameters () programs {forward = @gelu.forward}
func.func private @gelu.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.gelu(%x) {approximation = 1 : i64} : (!x) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @gelu.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-NEXT: %[[DX:.*]] = nn.gelu_gradient(%[[X]], %[[DY]]) {approximation = 1 : i64}
// CHECK-NEXT: return %[[DX]]

nn.parameter @p : tensor<1xf32>
nn.parameter @n : tensor<1xf32>
train.block layer @xielu parameters ("p" = @p, "n" = @n) programs {forward = @xielu.forward}
func.func private @xielu.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %p: tensor<1xf32> {train.port = #train.port<parameter, "p">},
    %n: tensor<1xf32> {train.port = #train.port<parameter, "n">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.xielu(%x, %p, %n) {beta = 0.5 : f32, epsilon = -0.125 : f32} : (!x, tensor<1xf32>, tensor<1xf32>) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @xielu.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-SAME: %[[P:[^ ]*]]: tensor<1xf32> {train.port = #train.port<parameter, "p">}, %[[N:[^ ]*]]: tensor<1xf32>
// CHECK-NEXT: %[[DX:.*]] = nn.xielu_gradient(%[[X]], %[[DY]], %[[P]], %[[N]]) {beta = 5.000000e-01 : f32, epsilon = -1.250000e-01 : f32}
// CHECK-NEXT: return %[[DX]]

train.block layer @gated parameters () programs {forward = @gated.forward}
func.func private @gated.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %up = nn.scale(%x) {alpha = 3.0 : f32} : (!x) -> !x
  %y = nn.gated(%x, %up) {activation = "gelu_tanh"} : (!x, !x) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @gated.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-NEXT: %[[UP:.*]] = nn.scale(%[[X]])
// CHECK-NEXT: %[[DGATE:.*]], %[[DUP:.*]] = nn.gated_gradient(%[[X]], %[[UP]], %[[DY]]) {activation = "gelu_tanh"}
// CHECK-NEXT: %[[SCALED:.*]] = nn.scale(%[[DUP]]) {alpha = 3.000000e+00 : f32}
// CHECK-NEXT: %[[DX:.*]] = nn.add(%[[DGATE]], %[[SCALED]])
// CHECK-NEXT: return %[[DX]]

train.block layer @add parameters () programs {forward = @add.forward}
func.func private @add.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.add(%x, %x) : (!x, !x) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @add.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-NEXT: %[[DX:.*]] = nn.add(%[[DY]], %[[DY]])
// CHECK-NEXT: return %[[DX]]

train.block layer @multiply parameters () programs {forward = @multiply.forward}
func.func private @multiply.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %b = nn.scale(%x) {alpha = 3.0 : f32} : (!x) -> !x
  %y = nn.multiply(%x, %b) : (!x, !x) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @multiply.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-NEXT: %[[B:.*]] = nn.scale(%[[X]])
// CHECK-NEXT: %[[DA:.*]] = nn.multiply(%[[DY]], %[[B]])
// CHECK-NEXT: %[[DB:.*]] = nn.multiply(%[[DY]], %[[X]])
// CHECK-NEXT: %[[SCALED:.*]] = nn.scale(%[[DB]])
// CHECK-NEXT: %[[DX:.*]] = nn.add(%[[DA]], %[[SCALED]])
// CHECK-NEXT: return %[[DX]]

train.block layer @scale parameters () programs {forward = @scale.forward}
func.func private @scale.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.scale(%x) {alpha = 3.0 : f32} : (!x) -> !x
  return %y : !x
}
// CHECK-LABEL: func.func private @scale.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-NEXT: %[[DX:.*]] = nn.scale(%[[DY]]) {alpha = 3.000000e+00 : f32}
// CHECK-NEXT: return %[[DX]]

// Nothing depends on the second part: its cotangent is zeros.
train.block layer @split parameters () programs {forward = @split.forward}
func.func private @split.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %y:3 = nn.split(%x) : (!x) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>)
  %z = nn.add(%y#0, %y#2) : (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>) -> tensor<?x?x1xf32, #nn.tokens>
  return %z : tensor<?x?x1xf32, #nn.tokens>
}
// CHECK-LABEL: func.func private @split.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-NEXT: %[[ZERO:.*]] = nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<?x?x2xf32, #nn.tokens>
// CHECK-NEXT: %[[DX:.*]] = nn.concat(%[[DY]], %[[ZERO]], %[[DY]])
// CHECK-NEXT: return %[[DX]]

// Positions depend on nothing that is trained.
nn.parameter @positions : tensor<64x4xf32>
train.block layer @position_embedding parameters ("positions" = @positions) programs {forward = @position_embedding.forward}
func.func private @position_embedding.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %p: tensor<64x4xf32> {train.port = #train.port<parameter, "positions">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.position_embedding(%p) : (tensor<64x4xf32>) -> !x
  %1 = nn.multiply(%x, %0) : (!x, !x) -> !x
  return %1 : !x
}
// CHECK-LABEL: func.func private @position_embedding.backward(
// CHECK: %[[P:.*]] = nn.position_embedding
// CHECK-NEXT: %[[DX:.*]] = nn.multiply(%{{.*}}, %[[P]])
// CHECK-NEXT: return %[[DX]]

// What an op has besides goes into its pullback.
train.block layer @attributes parameters ("v" = @v) programs {forward = @attributes.forward}
func.func private @attributes.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %v: !v {train.port = #train.port<parameter, "v">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.softcap(%x) {softcap = 3.0 : f32} : (!x) -> !x
  %1 = nn.layer_norm(%0, %v) {epsilon = 0.5 : f32, weight_offset = 1.0 : f32} : (!x, !v) -> !x
  %2 = nn.rope(%1) {frequencies = array<f32: 1.0>, head_dim = 4 : i64, interleaved} : (!x) -> !x
  %3, %4 = nn.attention(%2, %2, %2) {heads = 1 : i64, kv_heads = 1 : i64, scale = 0.5 : f32, softcap = 2.0 : f32} : (!x, !x, !x) -> (!x, tensor<?x?x1xf32, #nn.tokens>)
  %5 = nn.clamp(%3) {lower = -1.0 : f32, upper = 7.0 : f32} : (!x) -> !x
  %6 = nn.scale(%5) {alpha = 2.0 : f32, shift = 1.0 : f32} : (!x) -> !x
  return %6 : !x
}
// CHECK-LABEL: func.func private @attributes.backward(
// CHECK: %[[DY:.*]] = nn.scale(%{{.*}}) {alpha = 2.000000e+00 : f32} :
// CHECK: nn.clamp_gradient(%{{.*}}, %[[DY]]) {lower = -1.000000e+00 : f32, upper = 7.000000e+00 : f32}
// CHECK: nn.attention_gradient({{.*}}scale = 5.000000e-01 : f32, softcap = 2.000000e+00 : f32}
// CHECK: nn.rope({{.*}}) {frequencies = array<f32: 1.000000e+00>, head_dim = 4 : i64, interleaved, inverse = true}
// CHECK: nn.layer_norm_input_gradient({{.*}}) {epsilon = 5.000000e-01 : f32, weight_offset = 1.000000e+00 : f32}
// CHECK: nn.softcap_gradient({{.*}}) {softcap = 3.000000e+00 : f32}

train.block layer @groups parameters () programs {forward = @groups.forward}
func.func private @groups.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %y:2 = nn.split(%x) {groups = 2 : i64} : (!x) -> (tensor<?x?x2xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>)
  %z = nn.add(%y#0, %y#1) : (tensor<?x?x2xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>) -> tensor<?x?x2xf32, #nn.tokens>
  return %z : tensor<?x?x2xf32, #nn.tokens>
}
// CHECK-LABEL: func.func private @groups.backward(
// CHECK: nn.concat({{.*}}) {groups = 2 : i64}

// Values have a width of their own; what all heads have in common gets the sum of their cotangents.
!narrow = tensor<?x?x2xf32, #nn.tokens>
train.block layer @narrow_values parameters () programs {forward = @narrow_values.forward}
func.func private @narrow_values.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!narrow {train.port = #train.port<flow, "hidden">}) {
  %0:2 = nn.split(%x) : (!x) -> (!narrow, !narrow)
  %1 = nn.repeat(%0#0) : (!narrow) -> !x
  %2, %3 = nn.attention(%x, %1, %0#1) {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f32} : (!x, !x, !narrow) -> (!narrow, tensor<?x?x2xf32, #nn.tokens>)
  return %2 : !narrow
}
// CHECK-LABEL: func.func private @narrow_values.backward(
// CHECK: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = nn.attention_gradient({{.*}}-> (tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>)
// CHECK-NEXT: %[[DR:.*]] = nn.repeat_gradient(%[[DK]]) : (tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x2xf32, #nn.tokens>
// CHECK-NEXT: %[[DX:.*]] = nn.concat(%[[DR]], %[[DV]])
// CHECK-NEXT: nn.add(%[[DQ]], %[[DX]])

train.block layer @concat parameters () programs {forward = @concat.forward}
func.func private @concat.forward(%x: !narrow {train.port = #train.port<flow, "hidden">}) -> (tensor<?x?x8xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.silu(%x) : (!narrow) -> !narrow
  %1 = nn.repeat(%0) : (!narrow) -> tensor<?x?x6xf32, #nn.tokens>
  %2 = nn.concat(%1, %0) {groups = 2 : i64} : (tensor<?x?x6xf32, #nn.tokens>, !narrow) -> tensor<?x?x8xf32, #nn.tokens>
  return %2 : tensor<?x?x8xf32, #nn.tokens>
}
// CHECK-LABEL: func.func private @concat.backward(
// CHECK-SAME: %[[DY:[^ ]*]]: tensor<?x?x8xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK: %[[PARTS:.*]]:2 = nn.split(%[[DY]]) {groups = 2 : i64} : (tensor<?x?x8xf32, #nn.tokens>) -> (tensor<?x?x6xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>)
// CHECK-NEXT: nn.repeat_gradient(%[[PARTS]]#0)

// A recurrence's cotangents; marks are those of the forward that is computed again.
!gate = tensor<?x?x2xf32, #nn.tokens>
nn.parameter @rate : tensor<2xf32>
train.block layer @recurrence parameters ("rate" = @rate) programs {forward = @recurrence.forward}
func.func private @recurrence.forward(%x: !x {train.port = #train.port<flow, "hidden">}, %rate: tensor<2xf32> {train.port = #train.port<parameter, "rate">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0:2 = nn.split(%x) : (!x) -> (!gate, !gate)
  %g = nn.softplus(%0#0 bias %rate rate %rate) : (!gate, tensor<2xf32>, tensor<2xf32>) -> !gate
  %o, %s, %m = nn.gated_delta(%x, %x, %x, %g, %0#1) {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f32} : (!x, !x, !x, !gate, !gate) -> (!x, tensor<1x8xf32>, tensor<?x8xf32>)
  return %o : !x
}
// CHECK-LABEL: func.func private @recurrence.backward(
// CHECK: %[[G:.*]] = nn.softplus(%[[A:.*]] bias %[[RATE:.*]] rate %[[RATE]])
// CHECK: %{{.*}}, %{{.*}}, %[[MARKS:.*]] = nn.gated_delta(%[[X:[^ ,]*]], %[[X]], %[[X]], %[[G]], %[[B:[^ ,)]*]])
// CHECK: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]], %[[DG:.*]], %[[DB:.*]], %{{.*}} = nn.gated_delta_gradient(%[[X]], %[[X]], %[[X]], %[[G]], %[[B]], %[[MARKS]], %{{.*}}) {heads = 2 : i64, kv_heads = 2 : i64, scale = 5.000000e-01 : f32}
// CHECK: nn.softplus_gradient(%[[A]], %[[DG]] bias %[[RATE]] rate %[[RATE]])

train.block layer @dropout parameters () programs {forward = @dropout.forward}
func.func private @dropout.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.dropout(%x) {p = 0.25 : f32, salt = 3 : i64} : (!x) -> !x
  return %y : !x
}
// The same mask, of the cotangent.
// CHECK-LABEL: func.func private @dropout.backward(
// CHECK-SAME: %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-NEXT: %[[DX:.*]] = nn.dropout(%[[DY]]) {p = 2.500000e-01 : f32, salt = 3 : i64}
// CHECK-NEXT: return %[[DX]]
