# SPDX-License-Identifier: Apache-2.0
# make        installs what is missing, and builds what a user runs
# make demo   fine-tunes a real model on this machine
# make demo-grpo   teaches one by a reward alone
# make demo-dpo    teaches one which of two answers is preferred
# make test   builds and tests, and says the minutes of each part; of slow tests half, with MEBP_ALL_CASES=1 all
# make soak   what takes hours: every write fails once, runs are killed at random moments, each fuzzer runs for an hour
# make cross  links the runtime and its tests for glibc, musl and macOS on AArch64, and prints sizes
# make lint   holds the sources to their rules: ruff, clang-format, clang-tidy
# make wheel  builds dist/mebp-*.whl and tries them on a system that has nothing but Python
# make docs   writes docs/cli.md anew from the commands' own help, docs/ops.md and docs/passes.md from the .td files,
#             docs/models.md from what bench/models.py found, and what packages say of a session's options
# make clean  removes what was built; .venv stays
.PHONY: all setup product build demo demo-grpo demo-dpo test soak cross lint docs wheel clean

all: product

setup:
	@scripts/setup.sh

product: setup
	@scripts/build.sh product

build: setup
	@scripts/build.sh

demo: product
	@scripts/demo.sh

demo-grpo: product
	@scripts/demo_grpo.sh

demo-dpo: product
	@scripts/demo_dpo.sh

test: setup
	@scripts/test.sh

soak: build
	@scripts/soak.sh

cross: build
	@scripts/cross.sh

lint: build
	@scripts/lint.sh all

docs: build
	@.venv/bin/python docs/write_cli.py
	@.venv/bin/python docs/write_ir.py
	@.venv/bin/python docs/write_options.py
	@.venv/bin/python docs/write_models.py

wheel:
	@scripts/wheel.sh

clean:
	rm -rf build dist demo python/mebp/_runtime*.so
