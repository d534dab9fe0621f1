# SPDX-License-Identifier: Apache-2.0
"""Whether an adapter has learned what it was to learn, and what the model forgot by it."""

from mebp.judging.gates import Condition, check_figures, read_gate
from mebp.judging.judgement import FIGURES, Judgement, judge
from mebp.judging.prepared import GENERAL, MOST_NEW_TOKENS, Prepared, prepare
from mebp.judging.questions import Question, read_questions

__all__ = [
    "FIGURES",
    "GENERAL",
    "MOST_NEW_TOKENS",
    "Condition",
    "Judgement",
    "Prepared",
    "Question",
    "check_figures",
    "judge",
    "prepare",
    "read_gate",
    "read_questions",
]
