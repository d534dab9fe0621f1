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

option(MEBP_STATIC_MLIR "Link MLIR statically: mebpc grows by megabytes and runs where no MLIR is installed" OFF)
if(MEBP_STATIC_MLIR)
  set(MEBP_MLIR_LIBRARIES MLIRFuncDialect MLIRParser MLIRPass MLIRTransforms MLIRTransformUtils MLIRIR)
  # Debian's static MLIR asks for the shared LLVM; of that, MLIR's own libraries need the support library alone.
  function(link_static_llvm library)
    get_target_property(needed ${library} INTERFACE_LINK_LIBRARIES)
    if(NOT needed OR NOT "LLVM" IN_LIST needed)
      return()
    endif()
    list(TRANSFORM needed REPLACE "^LLVM$" LLVMSupport)
    set_target_properties(${library} PROPERTIES INTERFACE_LINK_LIBRARIES "${needed}")
    foreach(next IN LISTS needed)
      if(TARGET ${next} AND next MATCHES "^MLIR")
        link_static_llvm(${next})
      endif()
    endforeach()
  endfunction()
  foreach(library IN LISTS MEBP_MLIR_LIBRARIES)
    link_static_llvm(${library})
  endforeach()
  # What mebpc calls needs neither zlib, zstd nor Z3: the linker leaves out what of the support library does.
  set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "rt;dl;m;LLVMDemangle")
  add_link_options(-Wl,--gc-sections)
else()
  set(MEBP_MLIR_LIBRARIES MLIR LLVM)
endif()

# For all that sees MLIR's headers, which are compiled once: they were more than half of a file's time.
file(WRITE ${PROJECT_BINARY_DIR}/mlir_headers.cpp "")
add_library(mebp_mlir_headers OBJECT ${PROJECT_BINARY_DIR}/mlir_headers.cpp)
target_include_directories(mebp_mlir_headers SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_precompile_headers(mebp_mlir_headers PRIVATE
  $<$<CONFIG:Debug>:${PROJECT_SOURCE_DIR}/cmake/llvm_statistics.h>
  <mlir/Bytecode/BytecodeOpInterface.h> <mlir/Dialect/Func/IR/FuncOps.h> <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h>
  <mlir/IR/IRMapping.h> <mlir/IR/OpImplementation.h> <mlir/IR/PatternMatch.h> <mlir/IR/SymbolTable.h>
  <mlir/Interfaces/InferTypeOpInterface.h> <mlir/Interfaces/SideEffectInterfaces.h> <mlir/Pass/Pass.h>
  <llvm/ADT/SetVector.h> <llvm/ADT/SmallBitVector.h> <llvm/ADT/StringMap.h> <llvm/ADT/TypeSwitch.h>)
# What tablegen writes names parameters that it does not use.
function(use_mlir_headers target)
  target_compile_options(${target} PRIVATE -fno-rtti -fno-exceptions ${MEBP_WARNINGS} -Wno-unused-parameter
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  if(NOT ${target} STREQUAL mebp_mlir_headers)
    target_precompile_headers(${target} REUSE_FROM mebp_mlir_headers)
  endif()
endfunction()
use_mlir_headers(mebp_mlir_headers)
