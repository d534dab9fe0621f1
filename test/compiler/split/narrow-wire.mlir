// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-assign-places="device-first=1" --mebp-narrow-wire | FileCheck %s

!x = tensor<?x?x4xf32, #nn.tokens>
!u = tensor<?x?x2xf32, #nn.tokens>

// The first layer is the device's: what flows out of it crosses, u and v of its adapter do not. Of the second one u, v
// and both flows cross. Layers that shared a function no longer do.
// CHECK: train.block layer @layers.0 {{.*}} programs {adapt = @adapt, forward = @layer.output}
// CHECK: train.block layer @layers.1 {{.*}} programs {adapt = @adapt.remote, forward = @layer.input.output}
train.block layer @layers.0 parameters () programs {adapt = @adapt, forward = @layer}
train.block layer @layers.1 parameters () programs {adapt = @adapt, forward = @layer}

// CHECK: func.func private @adapt.remote(%{{.*}}: tensor<?x?x2xbf16, #nn.tokens> {{.*}}) -> (tensor<?x?x2xbf16, #nn.tokens>
// CHECK: func.func private @adapt(%{{.*}}: tensor<?x?x2xf32, #nn.tokens> {{.*}}) -> (tensor<?x?x2xf32, #nn.tokens>
func.func private @adapt(%u: !u {train.port = #train.port<remote, "q.u">}) -> (!u {train.port = #train.port<remote, "q.v">}) {
  %0 = nn.silu(%u) : (!u) -> !u
  return %0 : !u
}

// What only passes in between stays f32.
// CHECK-NOT: func.func private @layer(
// CHECK: func.func private @layer.output(%{{.*}}: tensor<?x?x4xf32, #nn.tokens> {{.*}}) -> (tensor<?x?x4xbf16, #nn.tokens>
// CHECK-NEXT: nn.silu({{.*}} -> tensor<?x?x4xf32, #nn.tokens>
// CHECK-NEXT: nn.silu({{.*}} -> tensor<?x?x4xbf16, #nn.tokens>
// CHECK: func.func private @layer.input.output(%{{.*}}: tensor<?x?x4xbf16, #nn.tokens> {{.*}}) -> (tensor<?x?x4xbf16, #nn.tokens>
// CHECK-NEXT: nn.silu({{.*}} : (tensor<?x?x4xbf16, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
func.func private @layer(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.silu(%x) : (!x) -> !x
  %1 = nn.silu(%0) : (!x) -> !x
  return %1 : !x
}
