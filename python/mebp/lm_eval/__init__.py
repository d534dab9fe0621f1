# SPDX-License-Identifier: Apache-2.0
"""mebp's models in lm-evaluation-harness: `from mebp.lm_eval import MebpLM`, which also registers the model "mebp".

lm_eval.simple_evaluate(MebpLM("NAME.mebp", adapter="A"), tasks=[...]), or as a command
python -m mebp.lm_eval run --model mebp --model_args bundle=NAME.mebp,adapter=A --tasks ...
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mebp.lm_eval.model import MebpLM

__all__ = ["MebpLM"]


def __getattr__(name: str) -> object:
    """Raises mebp.Error where the harness is not there, and then only: the command says it in one line."""
    if name != "MebpLM":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mebp.extras import need_packages

    need_packages("mebp.lm_eval", "lm-eval", "lm_eval")
    from mebp.lm_eval.model import MebpLM

    return MebpLM
