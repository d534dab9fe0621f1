# SPDX-License-Identifier: Apache-2.0
import os

import lit.formats

config.name = "mebp"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.build_folder, "test", "compiler")
config.environment["PATH"] = os.pathsep.join([config.tools_folder, config.llvm_tools_folder, os.environ["PATH"]])
# As in test/conftest.py: rates of this machine would change what is planned.
config.environment["MEBP_CACHE"] = os.path.join(config.build_folder, "test-cache")
config.substitutions.append(("%python", config.python))
