#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_torch.sh ENVIRONMENT VERSION: torch without CUDA where there is no GPU, and pip finds such a build.
# MEBP_TORCH_INDEX names PyTorch's own index of CPU builds, where pip's settings do not list it already.
set -euo pipefail

pip=("$1/bin/pip" install -qq ${MEBP_TORCH_INDEX:+--extra-index-url "$MEBP_TORCH_INDEX"})
if ! command -v nvidia-smi >/dev/null; then
  ! "${pip[@]}" "torch==$2+cpu" 2>/dev/null || exit 0
  echo "no CPU build of torch $2 at hand (see MEBP_TORCH_INDEX): taking the large one"
fi
"${pip[@]}" "torch==$2"
