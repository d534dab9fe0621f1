# SPDX-License-Identifier: Apache-2.0
# What our targets are compiled with; what protoc and nanobind bring is not ours.
option(MEBP_WERROR "A warning is an error, as in CI" OFF)
set(MEBP_WARNINGS -Wall -Wextra)
if(MEBP_WERROR)
  list(APPEND MEBP_WARNINGS -Werror)
endif()
