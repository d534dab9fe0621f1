// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-partition-blocks | FileCheck %s
// RUN: mebp-opt %s --mebp-partition-blocks --mebp-share-functions | FileCheck %s --check-prefix=SHARED
// RUN: mebp-opt %s --mebp-partition-blocks --mebp-assign-storage="matrices=int4 embeddings=int8" | FileCheck %s --check-prefix=STORAGE
// RUN: mebp-opt %s --mebp-partition-blocks --mebp-add-lora="rank=2 targets=all-linear" --mebp-share-functions --mebp-attach-objective --mebp-differentiate-blocks | FileCheck %s --check-prefix=GRADIENT
// RUN: mebp-opt %s --mebp-partition-blocks --mebp-share-functions --mebp-attach-objective --mebp-derive-decode="positions=64 rows=4 batch=1" | FileCheck %s --check-prefix=DECODE

// Layers take parts of what a linear layer and a table make of the ids, and compute them again: the rows of the weight
// that make the part, and the part of the table's row. The first layer's keys and values are the others', too.
// CHECK: train.block embed @embed parameters ("table" = @table)
// CHECK: %[[E:.*]] = nn.embedding(
// CHECK-NEXT: return %[[E]]
// CHECK: train.block layer @layers.0 parameters ({{.*}}"mebp.part.0" = @mebp.part.0, "table" = @table, "project" = @project, "inner" = @inner, "tables" = @tables
// CHECK-NEXT: func.func private @layers.0.forward(%[[X:[^ :]*]]: {{.*}}#train.port<flow, "hidden">}, %[[IDS:[^ :]*]]: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
// CHECK-SAME: -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<shared, "shared.0">}, tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<shared, "shared.1">})
// CHECK: %[[O:.*]], %{{.*}} = nn.attention(%{{.*}}, %[[K:.*]], %[[V:[^)]*]])
// CHECK: %[[PART:.*]] = nn.repeat_row(%{{.*}}) : (tensor<1x1xf32>) -> tensor<?x?x1xf32, #nn.tokens>
// CHECK: %[[AGAIN:.*]] = nn.embedding(%[[IDS]], %{{[^,)]*}})
// CHECK: %[[ROWS:.*]] = nn.expert_linear(%[[AGAIN]], %{{.*}}, %[[PART]]) {alpha = 5.000000e-01 : f32} : {{.*}} -> tensor<?x?x2xf32, #nn.tokens>
// CHECK: %[[NORM:.*]] = nn.rms_norm(%[[ROWS]]
// CHECK: %[[OWN:.*]] = nn.embedding(%[[IDS]], %{{.*}}, %[[PART]]) : {{.*}} -> tensor<?x?x2xf32, #nn.tokens>
// CHECK: %[[SUM:.*]] = nn.add(%[[NORM]], %[[OWN]])
// CHECK: nn.gated(%{{.*}}, %[[SUM]])
// CHECK: return %{{.*}}, %[[K]], %[[V]]
// CHECK: train.block layer @layers.1 {{.*}}"mebp.part.1" = @mebp.part.1
// CHECK-NEXT: func.func private @layers.1.forward(%[[X:[^ :]*]]: {{.*}}#train.port<flow, "hidden">}, %[[K:[^ :]*]]: {{.*}}#train.port<shared, "shared.0">}, %[[V:[^ :]*]]: {{.*}}#train.port<shared, "shared.1">}, %{{.*}}#train.port<batch, "ids">}
// CHECK: nn.attention(%{{.*}}, %[[K]], %[[V]])
// CHECK: train.block layer @layers.2
// CHECK: train.block head @head

// Which part it is does not keep layers from having one function.
// SHARED: train.block layer @layers.0 {{.*}}programs {forward = @layer.0.forward}
// SHARED: train.block layer @layers.1 {{.*}}programs {forward = @layer.1.forward}
// SHARED: train.block layer @layers.2 {{.*}}programs {forward = @layer.1.forward}

// A table that layers read is a table, and a part's number is exact.
// STORAGE-DAG: nn.parameter @tables : {{.*}}storage = "int8"
// STORAGE-DAG: nn.parameter @project : {{.*}}storage = "int4"
// STORAGE-DAG: nn.parameter @mebp.part.1 : {{.*}}storage = "f32"

// All layers have one adapter of the layer that they share; the backward of a layer that reads keys adds to their
// cotangent, and that of the first one takes it.
// GRADIENT: nn.parameter @base_model.model.project.lora_A.weight : tensor<2x4xf32>
// GRADIENT: nn.parameter @base_model.model.project.lora_B.weight : tensor<6x2xf32>
// GRADIENT-NOT: nn.parameter @base_model.model.project
// GRADIENT: func.func private @layer.0.backward.partial({{.*}}#train.port<flow, "hidden.cotangent">}, %{{[^ :]*}}: {{.*}}#train.port<shared, "shared.0.cotangent">}, %[[DV:[^ :]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<shared, "shared.1.cotangent">}
// GRADIENT: %[[DQ:.*]], %[[DK:.*]], %[[OWN:.*]] = nn.attention_gradient
// GRADIENT: nn.add(%[[DV]], %[[OWN]])
// GRADIENT: func.func private @layer.1.backward(
// GRADIENT-SAME: %[[DV:[^ :]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<shared, "shared.1.cotangent">}
// GRADIENT-SAME: %[[DK:[^ :]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<shared, "shared.0.cotangent">}
// GRADIENT: nn.add(%[[DK]],
// GRADIENT: nn.add(%[[DV]],

// Text is generated with the first layer's state.
// DECODE: func.func private @layer.0.decode(
// DECODE-SAME: %[[K:[^ :]*]]: tensor<?x64x4xf32, #nn.tokens> {train.port = #train.port<state, "shared.0">}, %[[V:[^ :]*]]: tensor<?x64x4xf32, #nn.tokens> {train.port = #train.port<state, "shared.1">})
// DECODE-SAME: -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">})
// DECODE: nn.append(%[[K]]
// DECODE: func.func private @layer.1.decode(
// DECODE-SAME: %[[K:[^ :]*]]: tensor<?x64x4xf32, #nn.tokens> {train.port = #train.port<shared, "shared.0">}
// DECODE-NOT: nn.append
// DECODE: nn.attention(%{{[^,]*}}, %[[K]], %{{[^)]*}}) {capacity = 64 : i64
!ids = tensor<?x?x1xi32, #nn.tokens>
!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x1xf32, #nn.tokens>
!part = tensor<?x?x2xf32, #nn.tokens>
!all = tensor<?x?x6xf32, #nn.tokens>
!w = tensor<4x4xf32>
!n = tensor<4xf32>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @tables : tensor<50x6xf32>
nn.parameter @project : tensor<6x4xf32>
nn.parameter @inner : tensor<2xf32>
nn.parameter @n : !n
nn.parameter @kw : !w
nn.parameter @vw : !w
nn.parameter @qw0 : !w
nn.parameter @gw0 : tensor<2x4xf32>
nn.parameter @pw0 : tensor<4x2xf32>
nn.parameter @qw1 : !w
nn.parameter @gw1 : tensor<2x4xf32>
nn.parameter @pw1 : tensor<4x2xf32>
nn.parameter @qw2 : !w
nn.parameter @gw2 : tensor<2x4xf32>
nn.parameter @pw2 : tensor<4x2xf32>
func.func @main(%ids: !ids) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %tables = nn.read_parameter @tables : tensor<50x6xf32>
  %project = nn.read_parameter @project : tensor<6x4xf32>
  %inner = nn.read_parameter @inner : tensor<2xf32>
  %n = nn.read_parameter @n : !n
  %kw = nn.read_parameter @kw : !w
  %vw = nn.read_parameter @vw : !w
  %qw0 = nn.read_parameter @qw0 : !w
  %gw0 = nn.read_parameter @gw0 : tensor<2x4xf32>
  %pw0 = nn.read_parameter @pw0 : tensor<4x2xf32>
  %qw1 = nn.read_parameter @qw1 : !w
  %gw1 = nn.read_parameter @gw1 : tensor<2x4xf32>
  %pw1 = nn.read_parameter @pw1 : tensor<4x2xf32>
  %qw2 = nn.read_parameter @qw2 : !w
  %gw2 = nn.read_parameter @gw2 : tensor<2x4xf32>
  %pw2 = nn.read_parameter @pw2 : tensor<4x2xf32>
  %h = nn.embedding(%ids, %table) : (!ids, tensor<50x4xf32>) -> !x
  %t = nn.embedding(%ids, %tables) : (!ids, tensor<50x6xf32>) -> !all
  %c = nn.linear(%h, %project) {alpha = 0.5 : f32} : (!x, tensor<6x4xf32>) -> !all
  %d = nn.rms_norm(%c, %inner) {epsilon = 1.0e-5 : f32} : (!all, tensor<2xf32>) -> !all
  %s = nn.add(%d, %t) : (!all, !all) -> !all
  %parts:3 = nn.split(%s) : (!all) -> (!part, !part, !part)
  %n0 = nn.rms_norm(%h, %n) {epsilon = 1.0e-5 : f32} : (!x, !n) -> !x
  %q0 = nn.linear(%n0, %qw0) : (!x, !w) -> !x
  %k0 = nn.linear(%n0, %kw) : (!x, !w) -> !x
  %v0 = nn.linear(%n0, %vw) : (!x, !w) -> !x
  %o0, %l0 = nn.attention(%q0, %k0, %v0) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  %a0 = nn.add(%h, %o0) : (!x, !x) -> !x
  %g0 = nn.linear(%a0, %gw0) : (!x, tensor<2x4xf32>) -> !part
  %e0 = nn.gated(%g0, %parts#0) {activation = "gelu"} : (!part, !part) -> !part
  %p0 = nn.linear(%e0, %pw0) : (!part, tensor<4x2xf32>) -> !x
  %h0 = nn.add(%a0, %p0) : (!x, !x) -> !x
  %n1 = nn.rms_norm(%h0, %n) {epsilon = 1.0e-5 : f32} : (!x, !n) -> !x
  %q1 = nn.linear(%n1, %qw1) : (!x, !w) -> !x
  %o1, %l1 = nn.attention(%q1, %k0, %v0) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  %a1 = nn.add(%h0, %o1) : (!x, !x) -> !x
  %g1 = nn.linear(%a1, %gw1) : (!x, tensor<2x4xf32>) -> !part
  %e1 = nn.gated(%g1, %parts#1) {activation = "gelu"} : (!part, !part) -> !part
  %p1 = nn.linear(%e1, %pw1) : (!part, tensor<4x2xf32>) -> !x
  %h1 = nn.add(%a1, %p1) : (!x, !x) -> !x
  %n2 = nn.rms_norm(%h1, %n) {epsilon = 1.0e-5 : f32} : (!x, !n) -> !x
  %q2 = nn.linear(%n2, %qw2) : (!x, !w) -> !x
  %o2, %l2 = nn.attention(%q2, %k0, %v0) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  %a2 = nn.add(%h1, %o2) : (!x, !x) -> !x
  %g2 = nn.linear(%a2, %gw2) : (!x, tensor<2x4xf32>) -> !part
  %e2 = nn.gated(%g2, %parts#2) {activation = "gelu"} : (!part, !part) -> !part
  %p2 = nn.linear(%e2, %pw2) : (!part, tensor<4x2xf32>) -> !x
  %h2 = nn.add(%a2, %p2) : (!x, !x) -> !x
  %f = nn.rms_norm(%h2, %n) {epsilon = 1.0e-5 : f32} : (!x, !n) -> !x
  %y = nn.linear(%f, %table) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %y : tensor<?x?x50xf32, #nn.tokens>
}
