# SPDX-License-Identifier: Apache-2.0
"""Objectives as functions of the log-probabilities of the tokens that were written.

Each gives a loss and the coefficients dL/dlogp of these tokens, which is all that a backward pass needs of it. They
compute in float64 and know nothing of models.
"""
