// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-raise | FileCheck %s
!x = tensor<16x4xf32>
!l = tensor<16x6xf32>
!w = tensor<16x2xf32>
!i = tensor<16x2xi64>
!s = tensor<f32>
!one = tensor<16x1xf32>
!index = tensor<16x1xi64>
nn.parameter @up : tensor<6x3x4xf32>
nn.parameter @bias : tensor<6xf32>
nn.parameter @turned : tensor<6x4x3xf32>
nn.parameter @biases : tensor<6x3xf32>

// The largest of a softmax, divided by their sum, weigh what each slot's expert gives.
// CHECK-LABEL: @softmax
// CHECK: %[[R:.*]]:2 = nn.onnx "Route"(%arg1) {normalized, scale = 1.000000e+00 : f32, score = "softmax"}
// CHECK: %[[Y:.*]] = nn.onnx "ExpertLinear"(%{{.*}}, %{{.*}}, %[[R]]#1)
// CHECK: %[[V:.*]] = nn.onnx "Reshape"(%[[Y]])
// CHECK: %[[Z:.*]] = nn.onnx "ExpertSum"(%[[V]], %[[R]]#0)
// CHECK-NEXT: return %[[Z]]
func.func @softmax(%x: !x, %logits: !l) -> tensor<16x3xf32> {
  %p = nn.onnx "Softmax"(%logits) : (!l) -> !l
  %v, %ids = nn.onnx "TopK"(%p) : (!l) -> (!w, !i)
  %sum = nn.onnx "ReduceSum"(%v) {axis = 1 : i64, keepdims = 1 : i64} : (!w) -> !one
  %weights = nn.onnx "Div"(%v, %sum) : (!w, !one) -> !w
  %all = nn.read_parameter @up : tensor<6x3x4xf32>
  %flat = nn.onnx "Reshape"(%ids) : (!i) -> tensor<32xi64>
  %own = nn.onnx "Gather"(%all, %flat) {axis = 0 : i64} : (tensor<6x3x4xf32>, tensor<32xi64>) -> tensor<32x3x4xf32>
  %matrices = nn.onnx "Reshape"(%own) : (tensor<32x3x4xf32>) -> tensor<16x2x3x4xf32>
  %column = nn.onnx "Reshape"(%x) : (!x) -> tensor<16x1x4x1xf32>
  %product = nn.onnx "MatMul"(%matrices, %column) : (tensor<16x2x3x4xf32>, tensor<16x1x4x1xf32>) -> tensor<16x2x3x1xf32>
  %y = nn.onnx "Reshape"(%product) : (tensor<16x2x3x1xf32>) -> tensor<16x2x3xf32>
  %each = nn.onnx "Reshape"(%weights) : (!w) -> tensor<16x2x1xf32>
  %weighed = nn.onnx "Mul"(%y, %each) : (tensor<16x2x3xf32>, tensor<16x2x1xf32>) -> tensor<16x2x3xf32>
  %z = nn.onnx "ReduceSum"(%weighed) {axis = 1 : i64, keepdims = 0 : i64} : (tensor<16x2x3xf32>) -> tensor<16x3xf32>
  return %z : tensor<16x3xf32>
}

// CHECK-LABEL: @softmax_of_chosen
// CHECK: nn.onnx "Route"(%{{.*}}) {scale = 1.000000e+00 : f32, score = "softmax_of_chosen"}
func.func @softmax_of_chosen(%y: tensor<16x2x3xf32>, %logits: !l) -> tensor<16x3xf32> {
  %some = nn.onnx "Relu"(%logits) : (!l) -> !l
  %v, %ids = nn.onnx "TopK"(%some) : (!l) -> (!w, !i)
  %weights = nn.onnx "Softmax"(%v) : (!w) -> !w
  %each = nn.onnx "Reshape"(%weights) : (!w) -> tensor<16x2x1xf32>
  %weighed = nn.onnx "Mul"(%y, %each) : (tensor<16x2x3xf32>, tensor<16x2x1xf32>) -> tensor<16x2x3xf32>
  %z = nn.onnx "ReduceSum"(%weighed) {axis = 1 : i64, keepdims = 0 : i64} : (tensor<16x2x3xf32>) -> tensor<16x3xf32>
  return %z : tensor<16x3xf32>
}

// Experts [E,in,out] with biases, as gpt-oss has them.
// CHECK-LABEL: @transposed
// CHECK: %[[R:.*]]:2 = nn.onnx "Route"
// CHECK: %[[Y:.*]] = nn.onnx "ExpertLinear"(%{{[^,]*}}, %{{[^,]*}}, %[[R]]#1, %{{[^,]*}}) {transposed = true} : ({{.*}}, tensor<6x4x3xf32>, {{.*}}, tensor<6x3xf32>) -> tensor<16x2x3x1xf32>
// CHECK-NOT: "Gather"
// CHECK: "ExpertSum"
func.func @transposed(%x: !x, %logits: !l) -> tensor<16x3xf32> {
  %some = nn.onnx "Relu"(%logits) : (!l) -> !l
  %v, %ids = nn.onnx "TopK"(%some) : (!l) -> (!w, !i)
  %weights = nn.onnx "Softmax"(%v) : (!w) -> !w
  %all = nn.read_parameter @turned : tensor<6x4x3xf32>
  %biases = nn.read_parameter @biases : tensor<6x3xf32>
  %turned = nn.onnx "Transpose"(%all) {perm = array<i64: 0, 2, 1>} : (tensor<6x4x3xf32>) -> tensor<6x3x4xf32>
  %flat = nn.onnx "Reshape"(%ids) : (!i) -> tensor<32xi64>
  %own = nn.onnx "Gather"(%turned, %flat) {axis = 0 : i64} : (tensor<6x3x4xf32>, tensor<32xi64>) -> tensor<32x3x4xf32>
  %matrices = nn.onnx "Reshape"(%own) : (tensor<32x3x4xf32>) -> tensor<16x2x3x4xf32>
  %column = nn.onnx "Reshape"(%x) : (!x) -> tensor<16x1x4x1xf32>
  %product = nn.onnx "MatMul"(%matrices, %column) : (tensor<16x2x3x4xf32>, tensor<16x1x4x1xf32>) -> tensor<16x2x3x1xf32>
  %y = nn.onnx "Reshape"(%product) : (tensor<16x2x3x1xf32>) -> tensor<16x2x3xf32>
  %ofSlots = nn.onnx "Gather"(%biases, %flat) {axis = 0 : i64} : (tensor<6x3xf32>, tensor<32xi64>) -> tensor<32x3xf32>
  %bias = nn.onnx "Reshape"(%ofSlots) : (tensor<32x3xf32>) -> tensor<16x2x3xf32>
  %sum = nn.onnx "Add"(%y, %bias) : (tensor<16x2x3xf32>, tensor<16x2x3xf32>) -> tensor<16x2x3xf32>
  %each = nn.onnx "Reshape"(%weights) : (!w) -> tensor<16x2x1xf32>
  %weighed = nn.onnx "Mul"(%sum, %each) : (tensor<16x2x3xf32>, tensor<16x2x1xf32>) -> tensor<16x2x3xf32>
  %z = nn.onnx "ReduceSum"(%weighed) {axis = 1 : i64, keepdims = 0 : i64} : (tensor<16x2x3xf32>) -> tensor<16x3xf32>
  return %z : tensor<16x3xf32>
}

// The bias of another expert than the one that multiplies is a sum of its own.
// CHECK-LABEL: @other_bias
// CHECK: nn.onnx "ExpertLinear"(%{{[^,]*}}, %{{[^,]*}}, %arg1)
// CHECK: nn.onnx "Gather"
// CHECK: nn.onnx "Add"
func.func @other_bias(%x: !x, %ids: !i, %others: !i) -> tensor<16x2x3xf32> {
  %all = nn.read_parameter @up : tensor<6x3x4xf32>
  %biases = nn.read_parameter @biases : tensor<6x3xf32>
  %matrices = nn.onnx "Gather"(%all, %ids) {axis = 0 : i64} : (tensor<6x3x4xf32>, !i) -> tensor<16x2x3x4xf32>
  %column = nn.onnx "Reshape"(%x) : (!x) -> tensor<16x1x4x1xf32>
  %product = nn.onnx "MatMul"(%matrices, %column) : (tensor<16x2x3x4xf32>, tensor<16x1x4x1xf32>) -> tensor<16x2x3x1xf32>
  %y = nn.onnx "Reshape"(%product) : (tensor<16x2x3x1xf32>) -> tensor<16x2x3xf32>
  %bias = nn.onnx "Gather"(%biases, %others) {axis = 0 : i64} : (tensor<6x3xf32>, !i) -> tensor<16x2x3xf32>
  %sum = nn.onnx "Add"(%y, %bias) : (tensor<16x2x3xf32>, tensor<16x2x3xf32>) -> tensor<16x2x3xf32>
  return %sum : tensor<16x2x3xf32>
}

// A bias chooses, the best two of three groups are chosen from, and what weighs has neither.
// CHECK-LABEL: @groups
// CHECK: nn.onnx "Route"(%arg1, %{{.*}}) {best_of_group = 2 : i64, epsilon = 9.99999968E-21 : f32, groups = 3 : i64, normalized, scale = 2.500000e+00 : f32, score = "sigmoid", top_groups = 2 : i64}
// CHECK-NOT: TopK
func.func @groups(%y: tensor<16x2x3xf32>, %logits: !l) -> tensor<16x3xf32> {
  %zeros = nn.constant dense<0.0> : tensor<16x3xf32> : tensor<16x3xf32>
  %ones = nn.constant dense<1.0> : !w : !w
  %hidden = nn.constant dense<0xFF800000> : !s : !s
  %epsilon = nn.constant dense<1.0e-20> : !s : !s
  %factor = nn.constant dense<2.5> : !s : !s
  %bias = nn.read_parameter @bias : tensor<6xf32>
  %scores = nn.onnx "Sigmoid"(%logits) : (!l) -> !l
  %choice = nn.onnx "Add"(%scores, %bias) : (!l, tensor<6xf32>) -> !l
  %grouped = nn.onnx "Reshape"(%choice) : (!l) -> tensor<16x3x2xf32>
  %best, %unused = nn.onnx "TopK"(%grouped) : (tensor<16x3x2xf32>) -> (tensor<16x3x2xf32>, tensor<16x3x2xi64>)
  %ofGroup = nn.onnx "ReduceSum"(%best) {axis = 2 : i64, keepdims = 0 : i64} : (tensor<16x3x2xf32>) -> tensor<16x3xf32>
  %unused2, %groups = nn.onnx "TopK"(%ofGroup) : (tensor<16x3xf32>) -> (!w, !i)
  %mask = nn.onnx "ScatterElements"(%zeros, %groups, %ones) : (tensor<16x3xf32>, !i, !w) -> tensor<16x3xf32>
  %column = nn.onnx "Reshape"(%mask) : (tensor<16x3xf32>) -> tensor<16x3x1xf32>
  %each = nn.onnx "Expand"(%column) : (tensor<16x3x1xf32>) -> tensor<16x3x2xf32>
  %flat = nn.onnx "Reshape"(%each) : (tensor<16x3x2xf32>) -> !l
  %shown = nn.onnx "Cast"(%flat) : (!l) -> tensor<16x6xi1>
  %not = nn.onnx "Not"(%shown) : (tensor<16x6xi1>) -> tensor<16x6xi1>
  %left = nn.onnx "Where"(%not, %hidden, %choice) : (tensor<16x6xi1>, !s, !l) -> !l
  %unused3, %ids = nn.onnx "TopK"(%left) : (!l) -> (!w, !i)
  %p = nn.onnx "GatherElements"(%scores, %ids) : (!l, !i) -> !w
  %sum = nn.onnx "ReduceSum"(%p) {axis = 1 : i64, keepdims = 1 : i64} : (!w) -> !one
  %more = nn.onnx "Add"(%sum, %epsilon) : (!one, !s) -> !one
  %normal = nn.onnx "Div"(%p, %more) : (!w, !one) -> !w
  %weights = nn.onnx "Mul"(%normal, %factor) : (!w, !s) -> !w
  %slots = nn.onnx "Reshape"(%weights) : (!w) -> tensor<16x2x1xf32>
  %weighed = nn.onnx "Mul"(%y, %slots) : (tensor<16x2x3xf32>, tensor<16x2x1xf32>) -> tensor<16x2x3xf32>
  %z = nn.onnx "ReduceSum"(%weighed) {axis = 1 : i64, keepdims = 0 : i64} : (tensor<16x2x3xf32>) -> tensor<16x3xf32>
  return %z : tensor<16x3xf32>
}

// What hides other numbers than the groups that were left out is no router that is known.
// CHECK-LABEL: @unknown
// CHECK: nn.onnx "TopK"
// CHECK-NOT: "Route"
func.func @unknown(%y: tensor<16x2x3xf32>, %logits: !l, %mask: tensor<16x6xi1>) -> tensor<16x3xf32> {
  %hidden = nn.constant dense<0.0> : !s : !s
  %p = nn.onnx "Softmax"(%logits) : (!l) -> !l
  %left = nn.onnx "Where"(%mask, %p, %hidden) : (tensor<16x6xi1>, !l, !s) -> !l
  %v, %ids = nn.onnx "TopK"(%left) : (!l) -> (!w, !i)
  %slots = nn.onnx "Reshape"(%v) : (!w) -> tensor<16x2x1xf32>
  %weighed = nn.onnx "Mul"(%y, %slots) : (tensor<16x2x3xf32>, tensor<16x2x1xf32>) -> tensor<16x2x3xf32>
  %z = nn.onnx "ReduceSum"(%weighed) {axis = 1 : i64, keepdims = 0 : i64} : (tensor<16x2x3xf32>) -> tensor<16x3xf32>
  return %z : tensor<16x3xf32>
}

// The gate of a shared expert is a router of one.
// CHECK-LABEL: @gate
// CHECK: %[[R:.*]]:2 = nn.onnx "Route"(%arg1) {scale = 1.000000e+00 : f32, score = "sigmoid"}
// CHECK-NEXT: nn.onnx "ExpertSum"(%arg0, %[[R]]#0)
func.func @gate(%x: !x, %logit: !one) -> !x {
  %gate = nn.onnx "Sigmoid"(%logit) : (!one) -> !one
  %y = nn.onnx "Mul"(%gate, %x) : (!one, !x) -> !x
  return %y : !x
}

// PhiMoE: the largest, by a softmax of what is near it, then the largest of what is left, likewise.
// CHECK-LABEL: @near
// CHECK: %[[R:.*]]:2 = nn.onnx "Route"(%arg1) {scale = 1.000000e+00 : f32, score = "softmax_of_near", threshold = 5.000000e-01 : f32}
// CHECK-NOT: "ArgMax"
// CHECK: nn.onnx "Gather"(%{{.*}}, %[[R]]#1)
// CHECK: nn.onnx "ExpertSum"(%{{.*}}, %[[R]]#0)
func.func @near(%y: tensor<16x2x3xf32>, %logits: !l) -> tensor<16x3xf32> {
  %hidden = nn.constant dense<0xFF800000> : !s : !s
  %taken = nn.constant dense<0xFF800000> : !one : !one
  %threshold = nn.constant dense<5.0e-1> : !s : !s
  %size = nn.onnx "Abs"(%logits) : (!l) -> !l
  %m0 = nn.onnx "ReduceMax"(%logits) {axis = 1 : i64, keepdims = 1 : i64} : (!l) -> !one
  %i0 = nn.onnx "ArgMax"(%logits) : (!l) -> !index
  %f0 = nn.onnx "Max"(%size, %m0) : (!l, !one) -> !l
  %d0 = nn.onnx "Sub"(%m0, %logits) : (!one, !l) -> !l
  %r0 = nn.onnx "Div"(%d0, %f0) : (!l, !l) -> !l
  %far0 = nn.onnx "Greater"(%r0, %threshold) : (!l, !s) -> tensor<16x6xi1>
  %n0 = nn.onnx "Where"(%far0, %hidden, %logits) : (tensor<16x6xi1>, !s, !l) -> !l
  %q0 = nn.onnx "Softmax"(%n0) : (!l) -> !l
  %p0 = nn.onnx "GatherElements"(%q0, %i0) : (!l, !index) -> !one
  %left = nn.onnx "ScatterElements"(%logits, %i0, %taken) : (!l, !index, !one) -> !l
  %m1 = nn.onnx "ReduceMax"(%left) {axis = 1 : i64, keepdims = 1 : i64} : (!l) -> !one
  %i1 = nn.onnx "ArgMax"(%left) : (!l) -> !index
  %f1 = nn.onnx "Max"(%size, %m1) : (!l, !one) -> !l
  %d1 = nn.onnx "Sub"(%m1, %logits) : (!one, !l) -> !l
  %r1 = nn.onnx "Div"(%d1, %f1) : (!l, !l) -> !l
  %far1 = nn.onnx "Greater"(%r1, %threshold) : (!l, !s) -> tensor<16x6xi1>
  %n1 = nn.onnx "Where"(%far1, %hidden, %left) : (tensor<16x6xi1>, !s, !l) -> !l
  %q1 = nn.onnx "Softmax"(%n1) : (!l) -> !l
  %p1 = nn.onnx "GatherElements"(%q1, %i1) : (!l, !index) -> !one
  %weights = nn.onnx "Concat"(%p0, %p1) {axis = 1 : i64} : (!one, !one) -> !w
  %ids = nn.onnx "Concat"(%i0, %i1) {axis = 1 : i64} : (!index, !index) -> !i
  %all = nn.read_parameter @biases : tensor<6x3xf32>
  %own = nn.onnx "Gather"(%all, %ids) {axis = 0 : i64} : (tensor<6x3xf32>, !i) -> tensor<16x2x3xf32>
  %sum = nn.onnx "Add"(%y, %own) : (tensor<16x2x3xf32>, tensor<16x2x3xf32>) -> tensor<16x2x3xf32>
  %each = nn.onnx "Reshape"(%weights) : (!w) -> tensor<16x2x1xf32>
  %weighed = nn.onnx "Mul"(%sum, %each) : (tensor<16x2x3xf32>, tensor<16x2x1xf32>) -> tensor<16x2x3xf32>
  %z = nn.onnx "ReduceSum"(%weighed) {axis = 1 : i64, keepdims = 0 : i64} : (tensor<16x2x3xf32>) -> tensor<16x3xf32>
  return %z : tensor<16x3xf32>
}

// A second softmax in which the first expert still counts is of no router that is known.
// CHECK-LABEL: @near_of_all
// CHECK: nn.onnx "ArgMax"
// CHECK-NOT: "Route"
// CHECK: return
func.func @near_of_all(%y: tensor<16x2x3xf32>, %logits: !l) -> tensor<16x3xf32> {
  %hidden = nn.constant dense<0xFF800000> : !s : !s
  %taken = nn.constant dense<0xFF800000> : !one : !one
  %threshold = nn.constant dense<5.0e-1> : !s : !s
  %size = nn.onnx "Abs"(%logits) : (!l) -> !l
  %m0 = nn.onnx "ReduceMax"(%logits) {axis = 1 : i64, keepdims = 1 : i64} : (!l) -> !one
  %i0 = nn.onnx "ArgMax"(%logits) : (!l) -> !index
  %f0 = nn.onnx "Max"(%size, %m0) : (!l, !one) -> !l
  %d0 = nn.onnx "Sub"(%m0, %logits) : (!one, !l) -> !l
  %r0 = nn.onnx "Div"(%d0, %f0) : (!l, !l) -> !l
  %far0 = nn.onnx "Greater"(%r0, %threshold) : (!l, !s) -> tensor<16x6xi1>
  %n0 = nn.onnx "Where"(%far0, %hidden, %logits) : (tensor<16x6xi1>, !s, !l) -> !l
  %q0 = nn.onnx "Softmax"(%n0) : (!l) -> !l
  %p0 = nn.onnx "GatherElements"(%q0, %i0) : (!l, !index) -> !one
  %left = nn.onnx "ScatterElements"(%logits, %i0, %taken) : (!l, !index, !one) -> !l
  %m1 = nn.onnx "ReduceMax"(%left) {axis = 1 : i64, keepdims = 1 : i64} : (!l) -> !one
  %i1 = nn.onnx "ArgMax"(%left) : (!l) -> !index
  %f1 = nn.onnx "Max"(%size, %m1) : (!l, !one) -> !l
  %d1 = nn.onnx "Sub"(%m1, %logits) : (!one, !l) -> !l
  %r1 = nn.onnx "Div"(%d1, %f1) : (!l, !l) -> !l
  %far1 = nn.onnx "Greater"(%r1, %threshold) : (!l, !s) -> tensor<16x6xi1>
  %n1 = nn.onnx "Where"(%far1, %hidden, %logits) : (tensor<16x6xi1>, !s, !l) -> !l
  %q1 = nn.onnx "Softmax"(%n1) : (!l) -> !l
  %p1 = nn.onnx "GatherElements"(%q1, %i1) : (!l, !index) -> !one
  %weights = nn.onnx "Concat"(%p0, %p1) {axis = 1 : i64} : (!one, !one) -> !w
  %ids = nn.onnx "Concat"(%i0, %i1) {axis = 1 : i64} : (!index, !index) -> !i
  %all = nn.read_parameter @biases : tensor<6x3xf32>
  %own = nn.onnx "Gather"(%all, %ids) {axis = 0 : i64} : (tensor<6x3xf32>, !i) -> tensor<16x2x3xf32>
  %sum = nn.onnx "Add"(%y, %own) : (tensor<16x2x3xf32>, tensor<16x2x3xf32>) -> tensor<16x2x3xf32>
  %each = nn.onnx "Reshape"(%weights) : (!w) -> tensor<16x2x1xf32>
  %weighed = nn.onnx "Mul"(%sum, %each) : (tensor<16x2x3xf32>, tensor<16x2x1xf32>) -> tensor<16x2x3xf32>
  %z = nn.onnx "ReduceSum"(%weighed) {axis = 1 : i64, keepdims = 0 : i64} : (tensor<16x2x3xf32>) -> tensor<16x3xf32>
  return %z : tensor<16x3xf32>
}

// What a slot counts, times a number of its expert.
// CHECK-LABEL: @scaled
// CHECK: %[[S:.*]] = nn.read_parameter @scales
// CHECK: %[[R:.*]]:2 = nn.onnx "Route"(%{{.*}}) {normalized, scale = 1.000000e+00 : f32, score = "softmax"}
// CHECK: %[[C:.*]] = nn.onnx "ExpertScale"(%[[R]]#0, %[[S]], %[[R]]#1)
// CHECK: nn.onnx "ExpertSum"(%{{.*}}, %[[C]])
nn.parameter @scales : tensor<6xf32>
func.func @scaled(%y: tensor<16x2x3xf32>, %logits: !l) -> tensor<16x3xf32> {
  %scales = nn.read_parameter @scales : tensor<6xf32>
  %s = nn.onnx "Softmax"(%logits) : (!l) -> !l
  %p, %ids = nn.onnx "TopK"(%s) : (!l) -> (!w, !i)
  %z = nn.onnx "ReduceSum"(%p) {axis = 1 : i64, keepdims = 1 : i64} : (!w) -> !one
  %n = nn.onnx "Div"(%p, %z) : (!w, !one) -> !w
  %own = nn.onnx "Gather"(%scales, %ids) {axis = 0 : i64} : (tensor<6xf32>, !i) -> !w
  %c = nn.onnx "Mul"(%n, %own) : (!w, !w) -> !w
  %each = nn.onnx "Reshape"(%c) : (!w) -> tensor<16x2x1xf32>
  %weighed = nn.onnx "Mul"(%y, %each) : (tensor<16x2x3xf32>, tensor<16x2x1xf32>) -> tensor<16x2x3xf32>
  %sum = nn.onnx "ReduceSum"(%weighed) {axis = 1 : i64, keepdims = 0 : i64} : (tensor<16x2x3xf32>) -> tensor<16x3xf32>
  return %sum : tensor<16x3xf32>
}
