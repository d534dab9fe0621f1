# SPDX-License-Identifier: Apache-2.0
"""A step that several processes share: M numbered micro-batches, whose gradients are summed in one binary tree.

A process that has 2^k consecutive numbers makes one node of the tree by itself, so 1, 2, 4, ... processes give the same
bits. docs/distributed.md says how they are started and what they promise.
"""
