# SPDX-License-Identifier: Apache-2.0
#
# Builds for AArch64 on another machine and runs what was built by qemu: with Debian's cross compiler and its own C
# library, and all other libraries from the folder `sysroot` in the build folder (scripts/test_aarch64.sh fills it).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu) # QEMU_CPU names the CPU

set(MEBP_SYSROOT ${CMAKE_BINARY_DIR}/sysroot CACHE PATH "libraries for AArch64")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MEBP_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${MEBP_SYSROOT})
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${MEBP_SYSROOT}/usr/include)
