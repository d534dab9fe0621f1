// SPDX-License-Identifier: Apache-2.0
// A function without a body stays one.
// RUN: mebp-opt %s --pass-pipeline='builtin.module(func.func(mebp-reduce-early))' | FileCheck %s
// RUN: mebp-opt %s --pass-pipeline='builtin.module(func.func(mebp-narrow-activations))' | FileCheck %s

// CHECK: func.func private @elsewhere(tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
func.func private @elsewhere(tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
