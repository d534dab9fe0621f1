// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --pass-pipeline='builtin.module(func.func(mebp-narrow-activations))' | FileCheck %s
// RUN: mebp-opt %s --pass-pipeline='builtin.module(func.func(mebp-narrow-activations),mebp-lower-to-exec{batch=2 sequence=40},mebp-place-values)' | FileCheck %s --check-prefix=EXEC

!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x1xf32, #nn.tokens>
!w = tensor<4x4xf32>

// Activations become bf16, parameters and their gradients do not; nor do the softmax's statistics, and what is summed
// over queries. A result takes over memory of its own type only.
// CHECK-LABEL: func.func private @attend(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xbf16, #nn.tokens> {train.port = #train.port<flow, "hidden">}
// CHECK-SAME: %[[W:[^ ]*]]: tensor<4x4xf32>
// CHECK-SAME: -> (tensor<?x?x4xbf16, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}, tensor<4x4xf32>
// CHECK: nn.linear(%[[X]], %[[W]]) : (tensor<?x?x4xbf16, #nn.tokens>, tensor<4x4xf32>) -> tensor<?x?x4xbf16, #nn.tokens>
// CHECK: nn.attention({{.*}} -> (tensor<?x?x4xbf16, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>)
// CHECK: nn.attention_gradient({{.*}} -> (tensor<?x?x4xbf16, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>)
// CHECK: nn.silu_gradient({{.*}} : (tensor<?x?x4xbf16, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x4xbf16, #nn.tokens>
// CHECK: nn.linear_weight_gradient({{.*}} : (tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x4xbf16, #nn.tokens>) -> tensor<4x4xf32>
// A product may round an exact cotangent as it reads it.
// CHECK: nn.linear_input_gradient({{.*}}) {narrow} : (tensor<?x?x4xf32, #nn.tokens>, tensor<4x4xf32>) -> tensor<?x?x4xbf16, #nn.tokens>
// CHECK: nn.linear_input_gradient({{.*}}) : (tensor<?x?x4xbf16, #nn.tokens>, tensor<4x4xf32>, tensor<?x?x4xbf16, #nn.tokens>)
// EXEC-LABEL: exec.program @attend
// EXEC: exec.kernel "silu_gradient"({{.*}}) at [#exec.place<arena [[DX:.*]]>]
// EXEC: exec.kernel "silu_gradient"({{.*}}) at [#exec.place<arena [[DX]]>]
func.func private @attend(%x: !x {train.port = #train.port<flow, "hidden">}, %w: !w {train.port = #train.port<parameter, "p0">})
    -> (!x {train.port = #train.port<flow, "hidden.cotangent">}, !w {train.port = #train.port<gradient, "p0">}) {
  %q = nn.linear(%x, %w) : (!x, !w) -> !x
  %o, %lse = nn.attention(%q, %x, %x) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  %dq, %dk, %dv = nn.attention_gradient(%q, %x, %x, %o, %lse, %x) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32,
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 0>} : (!x, !x, !x, !x, !l, !x) -> (!x, !x, !x)
  %dx = nn.silu_gradient(%q, %dk) : (!x, !x) -> !x
  %dx2 = nn.silu_gradient(%q, %dx) : (!x, !x) -> !x
  %dw = nn.linear_weight_gradient(%dv, %x) : (!x, !x) -> !w
  %dx3 = nn.linear_input_gradient(%dv, %w) : (!x, !w) -> !x
  %dx4 = nn.linear_input_gradient(%dx2, %w addend %dx3) : (!x, !w, !x) -> !x
  return %dx4, %dw : !x, !w
}

// What a loop carries has one type from end to end: sums stay exact because the kernel that adds to them says so, keys
// are rounded with what they are updated from.
// CHECK-LABEL: func.func private @chunked(
// CHECK: %[[ZERO:.*]] = nn.fill() {{.*}} -> tensor<?x?x4xf32, #nn.tokens>
// CHECK: train.loop sequence_reversed 16 {{.*}} : tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x4xbf16, #nn.tokens>
// CHECK: train.slice %{{.*}} : tensor<?x?x4xf32, #nn.tokens> -> tensor<?x?x4xf32, #nn.tokens>
// CHECK: nn.scale({{.*}} : (tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x4xbf16, #nn.tokens>
// CHECK: train.update %{{.*}} : tensor<?x?x4xbf16, #nn.tokens> into tensor<?x?x4xbf16, #nn.tokens>
func.func private @chunked(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden.cotangent">}) {
  %zero = nn.fill() {value = 0.0 : f32} : () -> !x
  %nought = nn.fill() {value = 0.0 : f32} : () -> !x
  %empty = train.empty : !x
  %sums:3 = train.loop sequence_reversed 16 trip %t (%dk = %zero, %dv = %nought, %dx = %empty) : !x, !x, !x {
    %q = train.slice %x[%t] : !x -> !x
    %o, %lse = nn.attention(%q, %x, %x) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
    %dq, %dk1, %dv1 = nn.attention_gradient(%q, %x, %x, %o, %lse, %q, %dk, %dv) {heads = 1 : i64, kv_heads = 1 : i64,
        scale = 1.0 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>}
        : (!x, !x, !x, !x, !l, !x, !x, !x) -> (!x, !x, !x)
    %rows = train.slice %dk1[%t] : !x -> !x
    %half = nn.scale(%rows) {alpha = 0.5 : f32} : (!x) -> !x
    %dx1 = train.update %half into %dx[%t] : !x into !x
    train.yield %dk1, %dv1, %dx1 : !x, !x, !x
  }
  return %sums#2 : !x
}

// Logits leave as they are. An exact value that leaves as a cotangent, or is written into one, is rounded on its way.
// CHECK-LABEL: func.func private @logits(
// CHECK-SAME: -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<result, "logits">})
// CHECK: nn.linear({{.*}} : (tensor<?x?x4xbf16, #nn.tokens>, tensor<4x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
func.func private @logits(%x: !x {train.port = #train.port<flow, "hidden">}, %w: !w {train.port = #train.port<parameter, "p0">})
    -> (!x {train.port = #train.port<result, "logits">}) {
  %logits = nn.linear(%x, %w) : (!x, !w) -> !x
  return %logits : !x
}

// CHECK-LABEL: func.func private @leaves(
// CHECK-SAME: -> (tensor<?x?x4xbf16, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">})
// CHECK: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = nn.attention_gradient
// CHECK: %[[ROUNDED:.*]] = nn.scale(%[[DV]]) {alpha = 1.000000e+00 : f32} : (tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x4xbf16, #nn.tokens>
// CHECK: return %[[ROUNDED]]
func.func private @leaves(%x: !x {train.port = #train.port<flow, "hidden">}, %lse: !l {train.port = #train.port<flow, "lse">}) -> (!x {train.port = #train.port<flow, "hidden.cotangent">}) {
  %dq, %dk, %dv = nn.attention_gradient(%x, %x, %x, %x, %lse, %x) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32,
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 0>} : (!x, !x, !x, !x, !l, !x) -> (!x, !x, !x)
  return %dv : !x
}

// CHECK-LABEL: func.func private @written(
// CHECK: %[[ROUNDED:.*]] = nn.scale(%{{.*}}) {alpha = 1.000000e+00 : f32} : (tensor<?x?x1xf32, #nn.tokens>) -> tensor<?x?x1xbf16, #nn.tokens>
// CHECK: train.update %[[ROUNDED]] into
func.func private @written(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!l {train.port = #train.port<flow, "hidden">}) {
  %empty = train.empty : !l
  %all = train.loop sequence 16 trip %t (%whole = %empty) : !l {
    %q = train.slice %x[%t] : !x -> !x
    %o, %lse = nn.attention(%q, %x, %x) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
    %next = train.update %lse into %whole[%t] : !l into !l
    train.yield %next : !l
  }
  return %all : !l
}

// What the caller takes is exact, and so is what it may lie in the place of.
// CHECK-LABEL: func.func private @capped(
// CHECK: nn.linear({{.*}} -> tensor<?x?x4xf32, #nn.tokens>
// CHECK: nn.softcap({{.*}} -> tensor<?x?x4xf32, #nn.tokens>
// EXEC-LABEL: exec.program @capped
// EXEC: exec.kernel "linear"({{.*}}) at [#exec.place<[[CALLER:.*]]>]
// EXEC: exec.kernel "softcap"({{.*}}) at [#exec.place<[[CALLER]]>]
func.func private @capped(%x: !x {train.port = #train.port<flow, "hidden">}, %w: !w {train.port = #train.port<parameter, "p0">})
    -> (!x {train.port = #train.port<result, "logits">}) {
  %logits = nn.linear(%x, %w) : (!x, !w) -> !x
  %capped = nn.softcap(%logits) {softcap = 3.0 : f32} : (!x) -> !x
  return %capped : !x
}

// The softmax's sums are exact, and a tile's probabilities are rounded for the product that reads them, beside the
// logits. Where nobody does, they stay in the place of these.
// CHECK-LABEL: func.func private @probabilities(
// CHECK: nn.log_probability_tile({{.*}} -> (tensor<?x?x4xbf16, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>,
// CHECK: nn.linear_input_gradient({{.*}}) : (tensor<?x?x4xbf16, #nn.tokens>,
// CHECK: nn.log_probability_tile({{.*}} -> (tensor<?x?x4xf32, #nn.tokens>,
// EXEC-LABEL: exec.program @probabilities
// EXEC: exec.kernel "linear"({{.*}}) at [#exec.place<arena [[READ:[0-9]*]]>]
// EXEC-NOT: exec.kernel "log_probability_tile"({{.*}}) at [#exec.place<arena [[READ]]>
// EXEC: exec.kernel "linear"({{.*}}) at [#exec.place<arena [[UNREAD:[0-9]*]]>]
// EXEC: exec.kernel "log_probability_tile"({{.*}}) at [#exec.place<arena [[UNREAD]]>,
func.func private @probabilities(%x: !x {train.port = #train.port<flow, "hidden">}, %labels: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "labels">}, %w: !w {train.port = #train.port<parameter, "p0">})
    -> (!l {train.port = #train.port<result, "sum">}, !x {train.port = #train.port<flow, "hidden.cotangent">}) {
  %zero = nn.fill() {value = 0.0 : f32} : () -> !l
  %one = nn.fill() {value = 1.0 : f32} : () -> !l
  %two = nn.fill() {value = 2.0 : f32} : () -> !l
  %three = nn.fill() {value = 3.0 : f32} : () -> !l
  %logits = nn.linear(%x, %w) : (!x, !w) -> !x
  %p, %max, %sum, %weighted, %target = nn.log_probability_tile(%logits, %labels, %zero, %one, %two, %three) : (!x, tensor<?x?x1xi32, #nn.tokens>, !l, !l, !l, !l) -> (!x, !l, !l, !l, !l)
  %dx = nn.linear_input_gradient(%p, %w) : (!x, !w) -> !x
  %again = nn.linear(%dx, %w) : (!x, !w) -> !x
  %unread, %max2, %sum2, %weighted2, %target2 = nn.log_probability_tile(%again, %labels, %max, %sum, %weighted, %target) : (!x, tensor<?x?x1xi32, #nn.tokens>, !l, !l, !l, !l) -> (!x, !l, !l, !l, !l)
  return %sum2, %dx : !l, !x
}
