# SPDX-License-Identifier: Apache-2.0
#
# Libraries that are headers alone, for a system that has no packages of them: cmake/zig.cmake has put them in sight.
# Highway, too: with one family of instructions it dispatches nothing at run time.
macro(mebp_provide method name)
  if("${name}" MATCHES "^(hwy|nlohmann_json|CLI11)$")
    foreach(target hwy::hwy nlohmann_json::nlohmann_json CLI11::CLI11)
      if(NOT TARGET ${target})
        add_library(${target} INTERFACE IMPORTED GLOBAL)
      endif()
    endforeach()
    set(${name}_FOUND TRUE)
  endif()
endmacro()
cmake_language(SET_DEPENDENCY_PROVIDER mebp_provide SUPPORTED_METHODS FIND_PACKAGE)
