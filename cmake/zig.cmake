# SPDX-License-Identifier: Apache-2.0
#
# Builds for MEBP_TARGET by zig's C++ compiler (PyPI's ziglang), which brings each system's headers and C library. MEBP_ZIG
# is its program; MEBP_HEADERS is a folder with hwy/ and nlohmann/, which are the same for every system.
set(MEBP_ZIG zig CACHE FILEPATH "zig's program")
set(MEBP_TARGET aarch64-linux-musl CACHE STRING "aarch64-linux-musl or aarch64-macos")
set(MEBP_HEADERS /usr/include CACHE PATH "where hwy/ and nlohmann/ are")
set(MEBP_GOOGLETEST /usr/src/googletest CACHE PATH "googletest's sources, as libgtest-dev has them")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MEBP_ZIG MEBP_TARGET MEBP_HEADERS)

if(MEBP_TARGET MATCHES macos)
  set(CMAKE_SYSTEM_NAME Darwin)
  set(CMAKE_OSX_SYSROOT "")
  # Nothing here runs what is built to ask it for its tests.
  set(CMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE PRE_TEST)
else()
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
  set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
endif()
set(CMAKE_SYSTEM_PROCESSOR aarch64)
foreach(tool ar ranlib)
  string(TOUPPER ${tool} name)
  set(CMAKE_${name} ${CMAKE_BINARY_DIR}/zig-${tool})
  file(WRITE ${CMAKE_${name}} "#!/bin/sh\nexec '${MEBP_ZIG}' ${tool} \"$@\"\n")
  file(CHMOD ${CMAKE_${name}} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endforeach()
set(CMAKE_C_COMPILER ${MEBP_ZIG} cc)
set(CMAKE_CXX_COMPILER ${MEBP_ZIG} c++)
set(CMAKE_C_COMPILER_TARGET ${MEBP_TARGET})
set(CMAKE_CXX_COMPILER_TARGET ${MEBP_TARGET})

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# Not -isystem /usr/include: this system's own headers must not be seen.
set(links ${CMAKE_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${links})
foreach(folder hwy nlohmann)
  file(CREATE_LINK ${MEBP_HEADERS}/${folder} ${links}/${folder} SYMBOLIC)
endforeach()
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${links})
set(CMAKE_PROJECT_TOP_LEVEL_INCLUDES ${CMAKE_CURRENT_LIST_DIR}/libraries.cmake)
