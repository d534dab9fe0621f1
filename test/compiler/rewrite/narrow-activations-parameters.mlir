// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --pass-pipeline='builtin.module(func.func(mebp-narrow-activations))' | FileCheck %s

// A parameter of three dimensions, experts' weights say, is no activation.
// CHECK-LABEL: func.func private @experts(
// CHECK-SAME: tensor<2x3x4xf32> {train.port = #train.port<parameter, "w">}
// CHECK: train.slice %{{.*}}[%{{.*}}] : tensor<2x3x4xf32> -> tensor<?x3x4xf32>
// CHECK: return %{{.*}} : tensor<2x3x4xf32>
func.func private @experts(%w: tensor<2x3x4xf32> {train.port = #train.port<parameter, "w">})
    -> (tensor<2x3x4xf32> {train.port = #train.port<gradient, "w">}) {
  %zero = train.empty : tensor<2x3x4xf32>
  %0 = train.loop weight_rows 1 over %w : tensor<2x3x4xf32> trip %t (%sum = %zero) : tensor<2x3x4xf32> {
    %expert = train.slice %w[%t] : tensor<2x3x4xf32> -> tensor<?x3x4xf32>
    %next = train.update %expert into %sum[%t] : tensor<?x3x4xf32> into tensor<2x3x4xf32>
    train.yield %next : tensor<2x3x4xf32>
  }
  return %0 : tensor<2x3x4xf32>
}
