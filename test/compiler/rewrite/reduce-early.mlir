// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-reduce-early | FileCheck %s

!x = tensor<?x?x16xf32, #nn.tokens>
!h = tensor<?x?x2xf32, #nn.tokens>
!w = tensor<16x16xf32>
!a = tensor<2x16xf32>
!b = tensor<16x2xf32>

// What the adapter needs of %x is read before %dx is made: the two are never there together.
// CHECK-LABEL: func.func @adapter(
// CHECK-SAME: %[[X:.*]]: tensor<?x?x16xf32, #nn.tokens>, %[[DY:.*]]: tensor<?x?x16xf32, #nn.tokens>,
// CHECK-NEXT: %[[DH:.*]] = nn.linear_input_gradient(%[[DY]], %{{.*}}) : (tensor<?x?x16xf32, #nn.tokens>, tensor<16x2xf32>)
// CHECK-NEXT: %[[S:.*]] = nn.silu(%[[X]])
// CHECK-NEXT: %[[H:.*]] = nn.linear(%[[S]],
// CHECK-NEXT: nn.linear_weight_gradient(%[[DH]], %[[S]])
// CHECK-NEXT: nn.linear_weight_gradient(%[[DY]], %[[H]])
// CHECK-NEXT: %[[BASE:.*]] = nn.linear_input_gradient(%[[DY]], %{{.*}}) : (tensor<?x?x16xf32, #nn.tokens>, tensor<16x16xf32>)
// CHECK-NEXT: nn.linear_input_gradient(%[[DH]], %{{.*}} addend %[[BASE]])
func.func @adapter(%x: !x, %dy: !x, %w: !w, %a: !a, %b: !b) -> (!x, !a, !b) {
  %s = nn.silu(%x) : (!x) -> !x
  %base = nn.linear_input_gradient(%dy, %w) : (!x, !w) -> !x
  %h = nn.linear(%s, %a) : (!x, !a) -> !h
  %dh = nn.linear_input_gradient(%dy, %b) : (!x, !b) -> !h
  %da = nn.linear_weight_gradient(%dh, %s) : (!h, !x) -> !a
  %db = nn.linear_weight_gradient(%dy, %h) : (!x, !h) -> !b
  %dx = nn.linear_input_gradient(%dh, %a addend %base) : (!h, !a, !x) -> !x
  return %dx, %da, %db : !x, !a, !b
}

// Nothing here makes less of what it reads.
// CHECK-LABEL: func.func @as_wide(
// CHECK-NEXT: nn.silu
// CHECK-NEXT: nn.linear(
// CHECK-NEXT: nn.add
func.func @as_wide(%x: !x, %w: !w) -> !x {
  %s = nn.silu(%x) : (!x) -> !x
  %y = nn.linear(%x, %w) : (!x, !w) -> !x
  %z = nn.add(%s, %y) : (!x, !x) -> !x
  return %z : !x
}

// What dropout gives is made again for each op that makes little of it, and is not there in between.
// CHECK-LABEL: func.func @dropout(
// CHECK-SAME: %[[X:.*]]: tensor<?x?x16xf32, #nn.tokens>, %[[DY:.*]]: tensor<?x?x16xf32, #nn.tokens>,
// CHECK-NEXT: %[[FIRST:.*]] = nn.dropout(%[[X]]) {p = 2.500000e-01 : f32, salt = 0 : i64}
// CHECK-NEXT: %[[H:.*]] = nn.linear(%[[FIRST]],
// CHECK-NEXT: %[[DH:.*]] = nn.linear_input_gradient(%[[DY]], %{{.*}}) : (tensor<?x?x16xf32, #nn.tokens>, tensor<16x2xf32>)
// CHECK-NEXT: %[[SECOND:.*]] = nn.dropout(%[[X]]) {p = 2.500000e-01 : f32, salt = 0 : i64}
// CHECK-NEXT: nn.linear_weight_gradient(%[[DH]], %[[SECOND]])
// CHECK-NEXT: nn.linear_weight_gradient(%[[DY]], %[[H]])
// CHECK-NEXT: nn.linear_input_gradient(%[[DY]], %{{.*}}) : (tensor<?x?x16xf32, #nn.tokens>, tensor<16x16xf32>)
// CHECK-NEXT: nn.linear_input_gradient(%[[DH]],
// CHECK-NEXT: nn.dropout(
// CHECK-NOT: nn.dropout(
func.func @dropout(%x: !x, %dy: !x, %w: !w, %a: !a, %b: !b) -> (!x, !x, !a, !b) {
  %d = nn.dropout(%x) {p = 0.25 : f32, salt = 0 : i64} : (!x) -> !x
  %base = nn.linear_input_gradient(%dy, %w) : (!x, !w) -> !x
  %h = nn.linear(%d, %a) : (!x, !a) -> !h
  %dh = nn.linear_input_gradient(%dy, %b) : (!x, !b) -> !h
  %da = nn.linear_weight_gradient(%dh, %d) : (!h, !x) -> !a
  %db = nn.linear_weight_gradient(%dy, %h) : (!x, !h) -> !b
  %dd = nn.linear_input_gradient(%dh, %a) : (!h, !a) -> !x
  %dx = nn.dropout(%dd) {p = 0.25 : f32, salt = 0 : i64} : (!x) -> !x
  return %base, %dx, %da, %db : !x, !x, !a, !b
}
