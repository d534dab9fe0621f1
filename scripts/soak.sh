#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What takes an hour: goes on after a failure, and ends with the totals. soak.sh NAME... runs the sections of these names.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH" MEBP_SOAK=1

results=()
failed=0
wanted=" $* "
section() {
  local name=$1 started=$SECONDS
  shift
  [ "$wanted" = "  " ] || [[ $wanted == *" $name "* ]] || return
  echo "== $name"
  if "$@"; then
    results+=("$name: passed in $((SECONDS - started)) s")
  else
    results+=("$name: FAILED in $((SECONDS - started)) s")
    failed=1
  fi
}

section models .venv/bin/python bench/models.py --check
section figures .venv/bin/python -m pytest test/e2e/test_gradients.py test/e2e/test_bf16.py test/e2e/test_full_training.py \
  test/e2e/test_galore.py test/e2e/test_head_adapter.py test/e2e/test_language.py -k "test_smollm2 or language"
section oldest scripts/test_oldest.sh
section swift scripts/test_swift.sh
section kotlin scripts/test_jni.sh demo
section aarch64 scripts/test_aarch64.sh devices musl
section faults .venv/bin/python -m pytest test/e2e/test_faults.py
section memory .venv/bin/python -m pytest test/e2e/test_memory_check.py
section budgets .venv/bin/python -m pytest test/e2e/test_budget.py
section split .venv/bin/python -m pytest test/e2e/test_split_faults.py
section data .venv/bin/python -m pytest test/e2e/test_large_data.py
section kills .venv/bin/python -m pytest test/e2e/test_kills.py test/e2e/test_objective_kills.py test/e2e/test_ray.py
section torchrun .venv/bin/python -m pytest test/e2e/test_torchrun_kills.py
section runs .venv/bin/python -m pytest test/e2e/test_real_runs.py
section mutants env MEBP_MUTANTS=100000 .venv/bin/python -m pytest test/python/test_gguf_mutants.py \
  test/python/test_adapters_mutants.py test/e2e/test_adapter_mutants.py
section templates .venv/bin/python test/fuzz/templates.py --count 10000
# MEBP_FUZZ_SECONDS=60 scripts/soak.sh bundle: that reader's fuzzer for a minute instead of an hour.
for target in $(ls test/fuzz/corpus); do
  section "$target" scripts/fuzz.sh "$target"
done

printf '\n'
printf '%s\n' "${results[@]}"
exit "$failed"
