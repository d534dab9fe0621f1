// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-share-functions --verify-diagnostics

// expected-error @below {{'train.block' op has no function 'forward'}}
train.block layer @layer parameters () programs {}
