# SPDX-License-Identifier: Apache-2.0
# The target mlx: headers and library of the MLX that pip installed for the Python of this build, or of the folder that
# MEBP_MLX names. Not MLX's own CMake package: that of its build for CUDA asks for the whole of NVIDIA's toolkit.
set(MEBP_MLX "" CACHE PATH "Folder with MLX's include/ and lib/; empty: where Python has it")
set(root ${MEBP_MLX})
if(NOT root)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
  # Asked without importing it: a build for CUDA cannot be imported where there is no driver. A folder that the build
  # happens in is no package, but those of PYTHONPATH are: scripts/wheel.sh has them there.
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "
import sys, importlib.util
sys.path = [folder for folder in sys.path if folder]
found = importlib.util.find_spec('mlx')
print(found.submodule_search_locations[0] if found else '')"
    OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NOT EXISTS ${root}/include/mlx/version.h)
  message(FATAL_ERROR "MLX is not there: pip install 'mlx[cpu]==0.32.4' (on a Mac mlx==0.32.4), or configure with -DMEBP_BACKEND_MLX=OFF")
endif()
# Its C++ API changes even between patch releases.
file(STRINGS ${root}/include/mlx/version.h numbers REGEX "^#define MLX_VERSION_(MAJOR|MINOR|PATCH) [0-9]+$")
list(TRANSFORM numbers REPLACE "^.* " "")
list(JOIN numbers . version)
if(NOT version STREQUAL 0.32.4)
  message(FATAL_ERROR "MLX in ${root} is ${version}: pip install 'mlx[cpu]==0.32.4' (on a Mac mlx==0.32.4)")
endif()

find_library(MEBP_MLX_LIBRARY mlx PATHS ${root}/lib NO_DEFAULT_PATH REQUIRED NO_CACHE)
add_library(mlx SHARED IMPORTED)
set_target_properties(mlx PROPERTIES IMPORTED_LOCATION ${MEBP_MLX_LIBRARY})
target_include_directories(mlx SYSTEM INTERFACE ${root}/include)
if(EXISTS ${root}/include/metal_cpp)
  target_include_directories(mlx SYSTEM INTERFACE ${root}/include/metal_cpp)
endif()
