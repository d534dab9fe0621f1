// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-add-private-lora="rank-down=2 rank-up=3 seed=9 targets=q,k" | FileCheck %s
// RUN: mebp-opt %s --mebp-add-private-lora="rank-down=2 rank-up=3 targets=q,k share-a first-layer=1" | FileCheck %s --check-prefix=SHARE
// RUN: mebp-opt %s --mebp-add-private-lora="rank-down=2 rank-up=3 targets=q,k" --mebp-share-functions --mebp-attach-objective --mebp-differentiate-blocks | FileCheck %s --check-prefix=BACK
// RUN: mebp-opt %s --mebp-add-private-lora="rank-down=2 rank-up=3 targets=q,k" --mebp-share-functions --mebp-attach-objective --mebp-derive-decode="positions=256 rows=10 batch=2" | FileCheck %s --check-prefix=DECODE
// RUN: mebp-opt %s --mebp-add-private-lora="rank-down=2 rank-up=3 targets=q,k" --mebp-share-functions --mebp-attach-objective --mebp-differentiate-blocks --mebp-chunk-sequence=size=16 | FileCheck %s --check-prefix=CHUNK
// RUN: mebp-opt %s --mebp-add-private-lora="rank-down=2 rank-up=3 targets=q,k" --mebp-share-functions --mebp-attach-objective --mebp-differentiate-blocks --mebp-chunk-sequence=size=16 --mebp-tile-loss="rows=8 columns=16" --mebp-lower-to-exec="batch=2 sequence=40" --mebp-place-values | FileCheck %s --check-prefix=PLACE

// PEFT reads A as lora_A and B M as lora_B, so the rank is M's inputs, and alpha / rank is 1.
// CHECK: module attributes {mebp.lora = {alpha = 2.000000e+00 : f32, rank = 2 : i64, target_modules = ["q", "k"]}}
// CHECK: nn.parameter @base_model.model.model.layers.0.q.lora_A.weight : tensor<2x4xf32> {drawn = #nn.drawn<9, 0>, storage = "bf16"}
// CHECK: nn.parameter @base_model.model.model.layers.0.q.lora_M.weight : tensor<3x2xf32> {between = [@base_model.model.model.layers.0.q.lora_A.weight, @base_model.model.model.layers.0.q.lora_B.weight], initial_bound = 0.000000e+00 : f32, trainable}
// CHECK: nn.parameter @base_model.model.model.layers.0.q.lora_B.weight : tensor<4x3xf32> {drawn = #nn.drawn<9, 1>, storage = "bf16"}
// CHECK: nn.parameter @base_model.model.model.layers.0.k.lora_A.weight : tensor<2x4xf32> {drawn = #nn.drawn<9, 2>, storage = "bf16"}
// CHECK: nn.parameter @base_model.model.model.layers.0.k.lora_B.weight : tensor<6x3xf32> {drawn = #nn.drawn<9, 3>, storage = "bf16"}
// CHECK: train.block layer @layers.0 {{.*}} programs {adapt = @layers.0.adapt, compress = @layers.0.compress, forward = @layers.0.forward}
// Only what u depends on is there.
// CHECK: func.func private @layers.0.compress(%[[X:[^ ]*]]: {{[^%]*}} {train.port = #train.port<flow, "hidden">}, %[[N:[^ ]*]]: {{[^%]*}} {train.port = #train.port<parameter, "norm.weight">}, %[[AQ:[^ ]*]]: {{[^%]*}} {train.port = #train.port<parameter, "q.lora_A.weight">}, %[[AK:[^ ]*]]: {{[^%]*}} {train.port = #train.port<parameter, "k.lora_A.weight">}) -> ({{.*}} {train.port = #train.port<remote, "q.u">}, {{.*}} {train.port = #train.port<remote, "k.u">})
// CHECK-NEXT: %[[NORM:.*]] = nn.rms_norm(%[[X]], %[[N]])
// CHECK-NEXT: %[[UQ:.*]] = nn.linear(%[[NORM]], %[[AQ]])
// CHECK-NEXT: %[[UK:.*]] = nn.linear(%[[NORM]], %[[AK]])
// CHECK-NEXT: return %[[UQ]], %[[UK]]
// CHECK: func.func private @layers.0.adapt(%[[UQ:[^ ]*]]: {{[^%]*}} {train.port = #train.port<remote, "q.u">}, %[[UK:[^ ]*]]: {{[^%]*}} {train.port = #train.port<remote, "k.u">}, %[[MQ:[^ ]*]]: {{[^%]*}} {train.port = #train.port<parameter, "q.lora_M.weight">, train.trainable}, %[[MK:[^ ]*]]: {{[^%]*}} {train.port = #train.port<parameter, "k.lora_M.weight">, train.trainable})
// CHECK-NEXT: %[[VQ:.*]] = nn.linear(%[[UQ]], %[[MQ]])
// CHECK-NEXT: %[[VK:.*]] = nn.linear(%[[UK]], %[[MK]])
// CHECK-NEXT: return %[[VQ]], %[[VK]]
// CHECK: func.func private @layers.0.forward(%[[X:[^ ]*]]: {{[^%]*}}, %[[VQ:[^ ]*]]: {{[^%]*}} {train.port = #train.port<remote, "q.v">}, %[[VK:[^ ]*]]: {{[^%]*}} {train.port = #train.port<remote, "k.v">},
// CHECK: %[[ADDED:.*]] = nn.linear(%[[VQ]], %{{.*}}) : {{.*}} tensor<4x3xf32>
// CHECK-NEXT: nn.linear(%{{.*}}, %{{.*}} addend %[[ADDED]])
// CHECK: %[[ADDED:.*]] = nn.linear(%[[VK]], %{{.*}}) : {{.*}} tensor<6x3xf32>
// CHECK-NEXT: nn.linear(%{{.*}}, %{{.*}} addend %[[ADDED]])
// CHECK: nn.parameter @base_model.model.model.layers.1.q.lora_A.weight : tensor<2x4xf32> {drawn = #nn.drawn<9, 4>
// CHECK: train.block head @head parameters ("table" = @table) programs {forward = @head.forward}

// Layer 0 is left alone, so an end of a name would say too much. One A and one u for both.
// SHARE: target_modules = ["model.layers.1.q", "model.layers.1.k"]
// SHARE: train.block layer @layers.0 {{.*}} programs {forward = @layers.0.forward}
// SHARE-NOT: layers.1.k.lora_A
// SHARE: nn.parameter @base_model.model.model.layers.1.k.lora_M.weight : tensor<3x2xf32> {between = [@base_model.model.model.layers.1.q.lora_A.weight, @base_model.model.model.layers.1.k.lora_B.weight]
// SHARE: func.func private @layers.1.compress({{.*}}) -> (tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<remote, "q.u">}) {
// SHARE: func.func private @layers.1.adapt(%[[U:[^ ]*]]: {{.*}} {train.port = #train.port<remote, "q.u">}, %[[MQ:[^ ]*]]: {{[^%]*}}, %[[MK:[^ ]*]]: {{[^%]*}})
// SHARE-NEXT: nn.linear(%[[U]], %[[MQ]])
// SHARE-NEXT: nn.linear(%[[U]], %[[MK]])

// Below the first layer nothing is trained: nobody asks for the cotangents of its u, nor for that of its input. All six
// programs are those of the second. The forward's gives the cotangents of v, M's those of u and its gradients, and
// the last one adds to the cotangent of the block's input.
// BACK: train.block layer @layers.0 {{.*}} programs {adapt = @layer.adapt, adapt_backward = @layer.adapt_backward.partial, backward = @layer.backward.partial, compress = @layer.compress, forward = @layer.forward}
// BACK: func.func private @layer.compress_backward(%[[X:[^ ]*]]: {{[^%]*}} {train.port = #train.port<flow, "hidden">}, %[[DY:[^ ]*]]: {{[^%]*}} {train.port = #train.port<flow, "hidden.cotangent">}, %{{[^ ]*}}: {{[^%]*}} {train.port = #train.port<remote, "q.u.cotangent">}, %{{[^ ]*}}: {{[^%]*}} {train.port = #train.port<remote, "k.u.cotangent">}, {{.*}}) -> ({{.*}} {train.port = #train.port<flow, "hidden.cotangent">})
// BACK: %[[DX:.*]] = nn.rms_norm_input_gradient(%[[X]]
// BACK-NEXT: %[[SUM:.*]] = nn.add(%[[DY]], %[[DX]])
// BACK-NEXT: return %[[SUM]]
// BACK: func.func private @layer.adapt_backward(%[[UQ:[^ ]*]]: {{[^%]*}} {train.port = #train.port<remote, "q.u">}, %[[UK:[^ ]*]]: {{[^%]*}} {train.port = #train.port<remote, "k.u">}, %[[DVQ:[^ ]*]]: {{[^%]*}} {train.port = #train.port<remote, "q.v.cotangent">}, %[[DVK:[^ ]*]]: {{[^%]*}} {train.port = #train.port<remote, "k.v.cotangent">}, {{.*}}) -> ({{.*}} {train.port = #train.port<remote, "q.u.cotangent">}, {{.*}} {train.port = #train.port<remote, "k.u.cotangent">}, {{.*}} {train.port = #train.port<gradient, "q.lora_M.weight">}, {{.*}} {train.port = #train.port<gradient, "k.lora_M.weight">})
// BACK: nn.linear_weight_gradient(%[[DVK]], %[[UK]]) {{.*}} -> tensor<3x2xf32>
// BACK: nn.linear_weight_gradient(%[[DVQ]], %[[UQ]]) {{.*}} -> tensor<3x2xf32>
// BACK: func.func private @layer.adapt_backward.partial({{.*}}) -> (tensor<3x2xf32> {train.port = #train.port<gradient, "q.lora_M.weight">}, tensor<3x2xf32> {train.port = #train.port<gradient, "k.lora_M.weight">})
// No gradient has the size of A, of B or of the layer's own weights.
// BACK: func.func private @layer.backward({{.*}} -> ({{.*}} {train.port = #train.port<flow, "hidden.cotangent">}, {{.*}} {train.port = #train.port<remote, "q.v.cotangent">}, {{.*}} {train.port = #train.port<remote, "k.v.cotangent">}) {
// BACK-NOT: nn.linear_weight_gradient
// BACK: func.func private @layer.backward.partial({{.*}} -> (tensor<?x?x3xf32, #nn.tokens> {train.port = #train.port<remote, "q.v.cotangent">}, tensor<?x?x3xf32, #nn.tokens> {train.port = #train.port<remote, "k.v.cotangent">}) {
// BACK-NOT: nn.linear_weight_gradient
// BACK: train.block layer @layers.1 {{.*}} programs {adapt = @layer.adapt, adapt_backward = @layer.adapt_backward, backward = @layer.backward, compress = @layer.compress, compress_backward = @layer.compress_backward, forward = @layer.forward}

// DECODE: train.block layer @layers.0 {{.*}} programs {adapt = @layer.adapt, compress = @layer.compress, decode = @layer.decode, decode_adapt = @layer.decode_adapt, decode_compress = @layer.decode_compress, forward = @layer.forward}
// DECODE: func.func private @layer.decode_compress({{.*}} -> ({{.*}} {train.port = #train.port<remote, "q.u">}, {{.*}} {train.port = #train.port<remote, "k.u">}) attributes {train.rows = 10 : i64}
// DECODE: func.func private @layer.decode_adapt({{.*}} {train.port = #train.port<remote, "q.u">}, {{.*}} -> ({{.*}} {train.port = #train.port<remote, "q.v">}, {{.*}} {train.port = #train.port<remote, "k.v">}) attributes {train.rows = 10 : i64}
// DECODE: func.func private @layer.decode({{.*}} {train.port = #train.port<remote, "q.v">}, {{.*}} attributes {train.rows = 10 : i64}

// M's programs are chunked like a layer's; its gradient is carried from chunk to chunk.
// CHUNK: func.func private @layer.adapt_backward(
// CHUNK: %[[ZERO:.*]] = nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<3x2xf32>
// CHUNK: train.loop sequence 16 {{.*}} = %[[ZERO]]
// CHUNK: nn.linear_weight_gradient(%{{.*}}, %{{.*}}, %{{.*}}) : {{.*}} -> tensor<3x2xf32>
// CHUNK: func.func private @layer.forward(
// CHUNK: train.loop sequence 16
// Only what takes and gives the flow may leave it where it lies.
// PLACE: exec.program @layer.compress inputs {{.*}} outputs [#train.port<remote, "q.u">, #train.port<remote, "k.u">] {
// PLACE: exec.program @layer.compress_backward {{.*}} outputs [#train.port<flow, "hidden.cotangent">] in_place {
// PLACE: exec.program @layer.adapt inputs {{.*}} outputs [#train.port<remote, "q.v">, #train.port<remote, "k.v">] {
// PLACE: exec.program @layer.adapt_backward {{.*}} #train.port<gradient, "k.lora_M.weight">] {
// PLACE: exec.program @layer.forward inputs [#train.port<flow, "hidden">, #train.port<remote, "q.v">, {{.*}} in_place {
// PLACE: exec.program @layer.backward {{.*}} #train.port<remote, "k.v.cotangent">] in_place {

!x = tensor<?x?x4xf32, #nn.tokens>
!k = tensor<?x?x6xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @"model.layers.0.norm.weight" : tensor<4xf32>
nn.parameter @"model.layers.0.q.weight" : tensor<4x4xf32>
nn.parameter @"model.layers.0.k.weight" : tensor<6x4xf32>
nn.parameter @"model.layers.0.out.weight" : tensor<4x6xf32>
nn.parameter @"model.layers.1.norm.weight" : tensor<4xf32>
nn.parameter @"model.layers.1.q.weight" : tensor<4x4xf32>
nn.parameter @"model.layers.1.k.weight" : tensor<6x4xf32>
nn.parameter @"model.layers.1.out.weight" : tensor<4x6xf32>
train.block layer @layers.0 parameters ("norm.weight" = @"model.layers.0.norm.weight", "q.weight" = @"model.layers.0.q.weight", "k.weight" = @"model.layers.0.k.weight", "out.weight" = @"model.layers.0.out.weight") programs {forward = @layers.0.forward}
func.func private @layers.0.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %norm: tensor<4xf32> {train.port = #train.port<parameter, "norm.weight">},
    %q: tensor<4x4xf32> {train.port = #train.port<parameter, "q.weight">},
    %k: tensor<6x4xf32> {train.port = #train.port<parameter, "k.weight">},
    %out: tensor<4x6xf32> {train.port = #train.port<parameter, "out.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.rms_norm(%x, %norm) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %q) : (!x, tensor<4x4xf32>) -> !x
  %2 = nn.linear(%0, %k) : (!x, tensor<6x4xf32>) -> !k
  %3 = nn.linear(%2, %out addend %1) : (!k, tensor<4x6xf32>, !x) -> !x
  return %3 : !x
}
train.block layer @layers.1 parameters ("norm.weight" = @"model.layers.1.norm.weight", "q.weight" = @"model.layers.1.q.weight", "k.weight" = @"model.layers.1.k.weight", "out.weight" = @"model.layers.1.out.weight") programs {forward = @layers.1.forward}
func.func private @layers.1.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %norm: tensor<4xf32> {train.port = #train.port<parameter, "norm.weight">},
    %q: tensor<4x4xf32> {train.port = #train.port<parameter, "q.weight">},
    %k: tensor<6x4xf32> {train.port = #train.port<parameter, "k.weight">},
    %out: tensor<4x6xf32> {train.port = #train.port<parameter, "out.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.rms_norm(%x, %norm) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %q) : (!x, tensor<4x4xf32>) -> !x
  %2 = nn.linear(%0, %k) : (!x, tensor<6x4xf32>) -> !k
  %3 = nn.linear(%2, %out addend %1) : (!k, tensor<4x6xf32>, !x) -> !x
  return %3 : !x
}
train.block head @head parameters ("table" = @table) programs {forward = @head.forward}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %0 : tensor<?x?x50xf32, #nn.tokens>
}
