// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-add-starts | FileCheck %s
// RUN: mebp-opt %s --mebp-add-starts --mebp-differentiate-blocks --mebp-chunk-sequence=size=16 | FileCheck %s --check-prefix=BACK
// RUN: mebp-opt %s --mebp-add-starts --mebp-derive-decode="positions=64 rows=4 batch=1" | FileCheck %s --check-prefix=DECODE

!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x2xf32, #nn.tokens>
!i = tensor<?x?x1xi32, #nn.tokens>
nn.parameter @p : tensor<64x4xf32> {trainable}

// CHECK: func.func private @embed.forward(
// CHECK-SAME: %[[P:[^ :]*]]: tensor<64x4xf32>
// CHECK-SAME: %[[S:[^ :]*]]: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "starts">})
// CHECK: nn.position_embedding(%[[P]], %[[S]])
// BACK: func.func private @embed.backward(
// BACK-SAME: %[[S:[^ :]*]]: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "starts">})
// BACK: nn.position_embedding_weight_gradient(%{{[^,]*}}, %[[S]]) {operandSegmentSizes = array<i32: 1, 0, 1>}
train.block embed @embed parameters ("p" = @p) programs {forward = @embed.forward}
func.func private @embed.forward(%ids: !i {train.port = #train.port<batch, "ids">},
    %p: tensor<64x4xf32> {train.port = #train.port<parameter, "p">, train.trainable}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.position_embedding(%p) : (tensor<64x4xf32>) -> !x
  return %y : !x
}

// Both halves of a layer know of starts, whose rows a chunk takes with its own; what generates has one sample.
// CHECK: func.func private @layer.forward(
// CHECK-SAME: %[[X:[^ :]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[S:[^ :]*]]: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "starts">})
// CHECK: %[[Q:.*]] = nn.rope(%[[X]], %[[S]])
// CHECK: nn.attention(%[[Q]], %[[X]], %[[X]], %[[S]])
// BACK: func.func private @layer.backward(
// BACK-SAME: %[[S:[^ :]*]]: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "starts">})
// BACK: train.loop sequence_reversed 16 trip %[[T:[^ ]*]]
// BACK: %[[SC:.*]] = train.slice %[[S]][%[[T]]]
// BACK: nn.attention_gradient({{.*}}, %[[SC]]) {{.*}}operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>
// BACK: nn.rope(%{{[^,]*}}, %[[SC]]) {{.*}}inverse = true
// DECODE: func.func private @layer.decode(
// DECODE-NOT: starts
// DECODE: nn.rope(%{{[^,]*}}) {
// DECODE: return
train.block layer @layer parameters () programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %q = nn.rope(%x) {frequencies = array<f32: 1.0>, head_dim = 2 : i64} : (!x) -> !x
  %o, %lse = nn.attention(%q, %x, %x) {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f32} : (!x, !x, !x) -> (!x, !l)
  %y = nn.add(%o, %x) : (!x, !x) -> !x
  return %y : !x
}
