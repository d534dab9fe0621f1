# SPDX-License-Identifier: Apache-2.0
"""Training in several processes that Ray Train starts, and starts again where one dies.

    import mebp.ray

    mebp.ray.fit("model.mebp", "data.jsonl", workers=2, max_failures=3, state="state", adapter_out="adapter")

Ray is imported when fit is called. docs/distributed.md says what several processes promise.
"""

from mebp.ray.fitting import Fit, fit

__all__ = ["Fit", "fit"]
