// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-add-starts | FileCheck %s

// What sees later tokens is told where the sample ends, too.
// CHECK: func.func private @encoder.forward(
// CHECK-SAME: %[[S:[^ :]*]]: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "starts">}, %[[E:[^ :]*]]: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ends">})
// CHECK: nn.bidirectional_attention(%{{.*}}, %{{.*}}, %{{.*}}, %[[S]], %[[E]])
!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x2xf32, #nn.tokens>
train.block layer @encoder parameters () programs {forward = @encoder.forward}
func.func private @encoder.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %o, %lse = nn.bidirectional_attention(%x, %x, %x) {heads = 2 : i64, kv_heads = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5 : f32} : (!x, !x, !x) -> (!x, !l)
  return %o : !x
}
