# SPDX-License-Identifier: Apache-2.0
# MLIR 22 as Debian packages it; set MLIR_DIR for another place.
if(NOT MLIR_DIR)
  set(MLIR_DIR /usr/lib/llvm-22/lib/cmake/mlir)
endif()
find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "mebp needs MLIR 22, but ${MLIR_DIR} has ${LLVM_PACKAGE_VERSION}: set MLIR_DIR")
endif()
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
