# SPDX-License-Identifier: Apache-2.0
#
# Libraries for a system that has no packages of them. Those that are headers alone cmake/zig.cmake has put in sight:
# Highway, too, since with one family of instructions it dispatches nothing at run time. googletest is compiled.
macro(mebp_provide method name)
  if("${name}" MATCHES "^(hwy|nlohmann_json)$")
    foreach(target hwy::hwy nlohmann_json::nlohmann_json)
      if(NOT TARGET ${target})
        add_library(${target} INTERFACE IMPORTED GLOBAL)
      endif()
    endforeach()
    set(${name}_FOUND TRUE)
  elseif("${name}" STREQUAL "GTest")
    set(INSTALL_GTEST OFF)
    set(BUILD_GMOCK OFF)
    add_subdirectory(${MEBP_GOOGLETEST} googletest EXCLUDE_FROM_ALL)
    set(GTest_FOUND TRUE)
  endif()
endmacro()
cmake_language(SET_DEPENDENCY_PROVIDER mebp_provide SUPPORTED_METHODS FIND_PACKAGE)
