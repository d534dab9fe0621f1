// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-chunk-sequence="size=16 batch=2 sequence=40" | FileCheck %s
// RUN: mebp-opt %s --mebp-differentiate-blocks --mebp-chunk-sequence="size=16 batch=2 sequence=40" | FileCheck %s --check-prefix=BACK
// RUN: mebp-opt %s --mebp-differentiate-blocks --mebp-chunk-sequence="size=16 batch=2 sequence=40" --mebp-lower-to-exec="batch=2 sequence=40" --mebp-place-values | FileCheck %s --check-prefix=EXEC
// RUN: mebp-opt %s --mebp-derive-decode="positions=64 rows=8 batch=2" | FileCheck %s --check-prefix=DECODE

// Forward: states are carried, and begin with what nobody reads.
// CHECK-LABEL: func.func private @mixing.forward(
// CHECK: %[[EMPTY:.*]] = train.empty : tensor<2x4xf32>
// CHECK: train.loop sequence 16 trip %[[T:.*]] (%[[TAIL:.*]] = %[[EMPTY]], %[[S:.*]] = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK: %[[Y:.*]], %[[NEXT:.*]] = nn.causal_conv(%{{.*}}, %{{.*}} state %[[TAIL]])
// CHECK: %{{.*}}, %[[S1:.*]], %{{.*}} = nn.gated_delta(%[[Y]], %[[Y]], %[[Y]], %{{.*}}, %{{.*}} state %[[S]])
// CHECK: train.yield %[[NEXT]], %[[S1]], %{{.*}}

// Backward: the ascending loop keeps what each of the six trips begins with; the descending one computes the ops again
// from that, and carries what earlier rows are owed, and the state's cotangent.
// BACK-LABEL: func.func private @mixing.backward(
// BACK: %[[KEPT:.*]]:4 = train.loop sequence 16 trip %[[T:.*]] (%[[TAIL:[^ ]*]] = %{{[^ ]*}}, %[[TAILS:[^ ]*]] = %{{[^ ]*}}, %[[S:[^ ]*]] = %{{[^ ]*}}, %[[STATES:[^ ]*]] = %{{[^ ]*}}) : tensor<2x4xf32>, tensor<12x4xf32>, tensor<1x8xf32>, tensor<6x8xf32>
// BACK: train.update %[[TAIL]] into %[[TAILS]][%[[T]]]
// BACK-NEXT: nn.causal_conv({{.*}} state %[[TAIL]])
// BACK: train.update %[[S]] into %[[STATES]][%[[T]]]
// BACK-NEXT: nn.gated_delta({{.*}} state %[[S]])
// BACK: train.loop sequence_reversed 16 trip %[[R:.*]] (%{{[^ ]*}} = %{{[^ ]*}}, %[[DS:[^ ]*]] = %{{[^ ]*}}, %[[OWED:[^ ]*]] = %{{[^ ]*}}, %{{[^ ]*}} = %{{[^ ]*}})
// BACK: %[[TAILR:.*]] = train.slice %[[KEPT]]#1[%[[R]]] : tensor<12x4xf32> -> tensor<2x4xf32>
// BACK: nn.causal_conv({{.*}} state %[[TAILR]])
// BACK: %[[SR:.*]] = train.slice %[[KEPT]]#3[%[[R]]] : tensor<6x8xf32> -> tensor<1x8xf32>
// BACK: %{{.*}}, %{{.*}}, %[[MARKS:.*]] = nn.gated_delta({{.*}} state %[[SR]])
// BACK: %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[DS1:.*]] = nn.gated_delta_gradient({{.*}} %[[MARKS]], %{{.*}} dstate %[[DS]])
// BACK: %{{.*}}, %[[OWED1:.*]] = nn.causal_conv_input_gradient(%{{.*}}, %{{.*}} owed %[[OWED]])
// BACK: train.yield %{{.*}}, %[[DS1]], %[[OWED1]], %{{.*}}

// The forward leaves no marks, for nobody reads them. What a trip begins with is copied, for the op writes there.
// EXEC-LABEL: exec.program @mixing.forward
// EXEC: %{{.*}}:2 = exec.kernel "gated_delta"
// EXEC-LABEL: exec.program @mixing.backward
// EXEC: exec.kernel "concat"({{.*}} : (tensor<1x8xf32>) -> tensor<1x8xf32>
// EXEC-NEXT: %{{.*}}:3 = exec.kernel "gated_delta"

// Generation has a state for each of two sequences.
// DECODE-LABEL: func.func private @mixing.decode(
// DECODE-SAME: %[[TAIL:[^ ]*]]: tensor<?x2x4xf32, #nn.tokens> {train.port = #train.port<state, "state">}
// DECODE-SAME: %[[S:[^ ]*]]: tensor<?x1x8xf32, #nn.tokens> {train.port = #train.port<state, "state.1">}
// DECODE: nn.causal_conv(%{{.*}}, %{{.*}} state %[[TAIL]]) {items = 2 : i64}
// DECODE: nn.gated_delta({{.*}} state %[[S]]) {heads = 2 : i64, items = 2 : i64,

!x = tensor<?x?x4xf32, #nn.tokens>
!h = tensor<?x?x2xf32, #nn.tokens>
!w = tensor<4x4xf32>
!c = tensor<4x3xf32>
!b = tensor<2x4xf32>
// What trains below it: a backward gives the cotangent of its input for this.
nn.parameter @lowest : tensor<50x4xf32> {trainable}
train.block embed @first parameters ("lowest" = @lowest) programs {forward = @first.forward}
func.func private @first.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lowest">, train.trainable})
    -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return %e : tensor<?x?x4xf32, #nn.tokens>
}
nn.parameter @a : !w {trainable}
nn.parameter @c : !c
nn.parameter @b : !b

train.block layer @mixing parameters ("a" = @a, "c" = @c, "b" = @b) programs {forward = @mixing.forward}
func.func private @mixing.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %a: !w {train.port = #train.port<parameter, "a">, train.trainable},
    %c: !c {train.port = #train.port<parameter, "c">},
    %b: !b {train.port = #train.port<parameter, "b">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %p = nn.linear(%x, %a) : (!x, !w) -> !x
  %y, %tail = nn.causal_conv(%p, %c) : (!x, !c) -> (!x, tensor<2x4xf32>)
  %r = nn.linear(%y, %b) : (!x, !b) -> !h
  %g = nn.softplus(%r) : (!h) -> !h
  %o, %state, %marks = nn.gated_delta(%y, %y, %y, %g, %r) {heads = 2 : i64, kv_heads = 2 : i64, scale = 1.0 : f32} : (!x, !x, !x, !h, !h) -> (!x, tensor<1x8xf32>, tensor<?x8xf32>)
  return %o : !x
}
