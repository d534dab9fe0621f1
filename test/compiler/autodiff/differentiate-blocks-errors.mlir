// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --mebp-differentiate-blocks --verify-diagnostics

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @a : tensor<4x4xf32> {trainable}
train.block layer @layer parameters ("a" = @a) programs {forward = @layer.forward}
// expected-error @below {{trainable parameter @a gets no gradient: nothing that the loss depends on reads it}}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %a: tensor<4x4xf32> {train.port = #train.port<parameter, "a">, train.trainable}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %unused = nn.linear(%x, %a) : (!x, tensor<4x4xf32>) -> !x
  %y = nn.silu(%x) : (!x) -> !x
  return %y : !x
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @p : tensor<64x4xf32>
nn.parameter @lowest : tensor<50x4xf32> {trainable}
train.block embed @first parameters ("lowest" = @lowest) programs {forward = @first.forward}
func.func private @first.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lowest">, train.trainable})
    -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return %e : tensor<?x?x4xf32, #nn.tokens>
}
train.block layer @layer parameters ("p" = @p) programs {forward = @layer.forward}
// expected-error @below {{nothing in block 'layer' depends on its input}}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %p: tensor<64x4xf32> {train.port = #train.port<parameter, "p">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.position_embedding(%p) : (tensor<64x4xf32>) -> !x
  return %y : !x
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @lowest : tensor<50x4xf32> {trainable}
train.block embed @first parameters ("lowest" = @lowest) programs {forward = @first.forward}
func.func private @first.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lowest">, train.trainable})
    -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return %e : tensor<?x?x4xf32, #nn.tokens>
}
train.block layer @layer parameters () programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  // expected-error @below {{'nn.repeat_gradient' has no gradient rule, but a trainable parameter or an earlier block lies behind it}}
  %y = nn.repeat_gradient(%x) : (!x) -> !x
  return %y : !x
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @lowest : tensor<50x4xf32> {trainable}
train.block embed @first parameters ("lowest" = @lowest) programs {forward = @first.forward}
func.func private @first.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lowest">, train.trainable})
    -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return %e : tensor<?x?x4xf32, #nn.tokens>
}
train.block layer @layer parameters () programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  // expected-error @below {{'nn.attention' has no gradient rule for 'lse'}}
  %y, %lse = nn.attention(%x, %x, %x) {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f32} : (!x, !x, !x) -> (!x, tensor<?x?x2xf32, #nn.tokens>)
  return %lse : tensor<?x?x2xf32, #nn.tokens>
}

// -----

// expected-error @below {{'train.block' op has no function 'forward'}}
train.block layer @layer parameters () programs {}

// -----

// expected-error @below {{'train.block' op has no function 'log_probabilities'}}
train.block head @head parameters () programs {}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
!j = tensor<?x?x2xf32, #nn.tokens>
nn.parameter @up : tensor<12x4xf32>
nn.parameter @bias : tensor<12xf32> {trainable}
train.block layer @layer parameters ("up" = @up, "bias" = @bias) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %up: tensor<12x4xf32> {train.port = #train.port<parameter, "up">},
    %bias: tensor<12xf32> {train.port = #train.port<parameter, "bias">, train.trainable}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %weights, %ids = nn.route(%x) {score = "softmax"} : (!x) -> (!j, !j)
  // expected-error @below {{'nn.expert_linear' has no gradient rule for its bias; leave it frozen}}
  %y = nn.expert_linear(%x, %up, %ids bias %bias) : (!x, tensor<12x4xf32>, !j, tensor<12xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  %z = nn.expert_sum(%y, %weights) : (tensor<?x?x8xf32, #nn.tokens>, !j) -> !x
  return %z : !x
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @p : tensor<1xf32> {trainable}
nn.parameter @n : tensor<1xf32>
train.block layer @layer parameters ("p" = @p, "n" = @n) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %p: tensor<1xf32> {train.port = #train.port<parameter, "p">, train.trainable},
    %n: tensor<1xf32> {train.port = #train.port<parameter, "n">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  // expected-error @below {{'nn.xielu' has no gradient rule for its alphas; leave them frozen}}
  %y = nn.xielu(%x, %p, %n) {beta = 0.5 : f32, epsilon = -0.125 : f32} : (!x, tensor<1xf32>, tensor<1xf32>) -> !x
  return %y : !x
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @lowest : tensor<50x4xf32> {trainable}
train.block embed @first parameters ("lowest" = @lowest) programs {forward = @first.forward}
func.func private @first.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lowest">, train.trainable})
    -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return %e : tensor<?x?x4xf32, #nn.tokens>
}
train.block layer @layer parameters () programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  // expected-error @below {{'nn.bidirectional_attention' has no gradient rule for 'lse'}}
  %y, %lse = nn.bidirectional_attention(%x, %x, %x) {heads = 2 : i64, kv_heads = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5 : f32} : (!x, !x, !x) -> (!x, tensor<?x?x2xf32, #nn.tokens>)
  return %lse : tensor<?x?x2xf32, #nn.tokens>
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @s : tensor<2xf32> {trainable}
train.block layer @layer parameters ("s" = @s) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %s: tensor<2xf32> {train.port = #train.port<parameter, "s">, train.trainable}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  // expected-error @below {{'nn.attention' has no gradient rule for its sinks; leave them frozen}}
  %y, %lse = nn.attention(%x, %x, %x sinks %s) {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f32} : (!x, !x, !x, tensor<2xf32>) -> (!x, tensor<?x?x2xf32, #nn.tokens>)
  return %y : !x
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @lowest : tensor<50x4xf32> {trainable}
train.block embed @first parameters ("lowest" = @lowest) programs {forward = @first.forward}
func.func private @first.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lowest">, train.trainable})
    -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return %e : tensor<?x?x4xf32, #nn.tokens>
}
train.block layer @layer parameters () programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  // expected-error @below {{'nn.route' has no gradient rule for 'ids'}}
  %weights, %ids = nn.route(%x) {score = "softmax"} : (!x) -> (tensor<?x?x2xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>)
  return %ids : tensor<?x?x2xf32, #nn.tokens>
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @b : tensor<4xf32> {trainable}
train.block layer @layer parameters ("b" = @b) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %b: tensor<4xf32> {train.port = #train.port<parameter, "b">, train.trainable}) -> (tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  // expected-error @below {{'nn.route' has no gradient rule for its bias, which chooses and counts for nothing else}}
  %weights, %ids = nn.route(%x, %b) {score = "softmax"} : (!x, tensor<4xf32>) -> (tensor<?x?x2xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>)
  return %weights : tensor<?x?x2xf32, #nn.tokens>
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @w : tensor<4x4xf32>
nn.parameter @b : tensor<4x4xf32>
nn.parameter @lowest : tensor<50x4xf32> {trainable}
train.block embed @first parameters ("lowest" = @lowest) programs {forward = @first.forward}
func.func private @first.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lowest">, train.trainable})
    -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return %e : tensor<?x?x4xf32, #nn.tokens>
}
train.block layer @layer parameters ("w" = @w, "b" = @b) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "w">},
    %b: tensor<4x4xf32> {train.port = #train.port<parameter, "b">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  // expected-error @below {{'nn.linear' has no gradient rule for its product of low rank: differentiate before mebp-fuse-addends}}
  %y = nn.linear(%x, %w low %x, %b) : (!x, tensor<4x4xf32>, !x, tensor<4x4xf32>) -> !x
  return %y : !x
}
