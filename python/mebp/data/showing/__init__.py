# SPDX-License-Identifier: Apache-2.0
"""Samples as training sees them, for people to look at: mebp data FILE --model M.

opening   the tokenizer and the row length that a model trains with
samples   what is seen of each sample, what counts and what is cut, taken from the rows that training takes
lines     these on a terminal or as plain lines
page      these as one page of HTML
"""
