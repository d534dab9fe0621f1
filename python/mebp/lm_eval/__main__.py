# SPDX-License-Identifier: Apache-2.0
"""lm-evaluation-harness's own command line, with the model "mebp": its models come from no plugin."""

import sys

from mebp.errors import Error
from mebp.words import say


def register() -> None:
    from mebp.lm_eval import MebpLM  # noqa: F401, whose module does it


def main() -> int:
    try:
        register()
        from lm_eval.__main__ import cli_evaluate

        cli_evaluate()
    except Error as error:
        say(f"mebp: {error}", error=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
