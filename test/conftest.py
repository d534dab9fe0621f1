# SPDX-License-Identifier: Apache-2.0
"""Every test runs this checkout's code, with none of its user's settings and with a cache of its own."""

import compileall
import os
import signal
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Processes that tests start inherit these: else a worktree's would run the checkout that .venv was made for.
os.environ["PYTHONPATH"] = str(ROOT / "python")
os.environ["MEBP_TOOLS"] = str(ROOT / "build" / "bin")
# The unpacked model stays from run to run; rates of this machine would change what is planned.
os.environ["MEBP_CACHE"] = str(ROOT / "build" / "test-cache")
(ROOT / "build" / "test-cache" / "rates.json").unlink(missing_ok=True)
for _setting in ("MEBP_KERNELS", "MEBP_TRACEBACK", "FORCE_COLOR", "NO_COLOR", "COLUMNS"):
    os.environ.pop(_setting, None)
for _setting in [name for name in os.environ if name.startswith("TTY_")]:
    del os.environ[_setting]
os.environ["TZ"] = "UTC"
# Its warning is of a class that pytest-xdist's first process would have to import, and cannot.
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
# What is compiled does not depend on what this machine has free.
os.environ["MEBP_MEMORY_BUDGET"] = "none"
# Threads of torch and of numpy's BLAS wait by spinning: where another process has a core, two are several times slower
# than one.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
time.tzset()

import torch  # noqa: E402

import mebp  # noqa: E402
from support.draw import pytest_collection_modifyitems  # noqa: E402, F401
from support.exports import begin_session, exported  # noqa: E402, F401
from support.failures import pytest_configure  # noqa: E402, F401
from support.forked import fork_exports  # noqa: E402
from support.held import pipe  # noqa: E402, F401
from support.hub import hub  # noqa: E402, F401
from support.traces import keep_traces  # noqa: E402

assert Path(mebp.__file__).is_relative_to(ROOT), f"{mebp.__file__} is not of {ROOT}"

begin_session()
fork_exports()
keep_traces()
# Hundreds of children start a third sooner, where PYTHONDONTWRITEBYTECODE would let each compile all modules anew.
compileall.compile_dir(ROOT / "python" / "mebp", quiet=2)

torch.set_num_threads(1)

# A shell starts what runs in its background with Ctrl-C ignored, and that is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
