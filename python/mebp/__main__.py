# SPDX-License-Identifier: Apache-2.0
import sys

from mebp.cli import main

sys.exit(main())
