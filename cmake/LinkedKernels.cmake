# SPDX-License-Identifier: Apache-2.0
# Which kernels the backends' tables have: <build>/runtime/exec/linked_kernels.h, of the bundles that MEBP_BUNDLES names.
set(MEBP_BUNDLES "" CACHE FILEPATH "Bundles, separated by semicolons: only kernels that they use are linked; empty: all")
if(MEBP_BUNDLES AND (MEBP_BUILD_COMPILER OR MEBP_BUILD_PYTHON OR MEBP_BUILD_TESTS))
  message(FATAL_ERROR "MEBP_BUNDLES is for a runtime alone: configure with the preset small or small-aarch64, or with -DMEBP_BUILD_COMPILER=OFF -DMEBP_BUILD_PYTHON=OFF -DMEBP_BUILD_TESTS=OFF")
endif()
find_program(PYTHON3 python3 REQUIRED)
set(script ${PROJECT_SOURCE_DIR}/runtime/exec/link_kernels.py)
execute_process(
  COMMAND ${PYTHON3} ${script} ${PROJECT_BINARY_DIR}/runtime/exec/linked_kernels.h ${MEBP_BUNDLES}
  OUTPUT_VARIABLE said ERROR_VARIABLE refusal RESULT_VARIABLE failed
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(failed)
  message(FATAL_ERROR "MEBP_BUNDLES: ${refusal}")
elseif(said)
  message(STATUS "${said}")
endif()
# What the list is made of: where one changes, CMake runs again.
list(TRANSFORM MEBP_BUNDLES APPEND /program.pb OUTPUT_VARIABLE programs)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script} ${programs}
  ${PROJECT_SOURCE_DIR}/format/kernels.h ${PROJECT_SOURCE_DIR}/format/program.proto)
