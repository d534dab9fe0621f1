# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts in place for other programs: libmebp.so, libmebp_text.so, their headers, what
# find_package(mebp) and pkg-config read, and mebp-run. All of it may be moved afterwards.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

file(STRINGS runtime/include/mebp/mebp.h api REGEX "^#define MEBP_API_VERSION [0-9]+$")
string(REGEX REPLACE "^.* " "" api ${api})

# The runtime's objects again, behind the functions of mebp.h alone.
add_library(mebp_shared SHARED $<TARGET_OBJECTS:mebp>)
target_link_libraries(mebp_shared PRIVATE $<BUILD_INTERFACE:mebp_layout> $<BUILD_INTERFACE:mebp_format> $<BUILD_INTERFACE:mebp_cpu>
  ${CMAKE_DL_LIBS})
set_target_properties(mebp_shared PROPERTIES OUTPUT_NAME mebp EXPORT_NAME mebp SOVERSION ${api} LINKER_LANGUAGE CXX)
if(NOT APPLE)
  target_link_options(mebp_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/runtime/exports.map -Wl,--no-undefined)
  set_property(TARGET mebp_shared APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/exports.map)
endif()

foreach(library mebp_shared mebp_text)
  target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/mebp)
install(TARGETS mebp_shared mebp_text mebp-run EXPORT mebp COMPONENT runtime)
install(DIRECTORY runtime/include/mebp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT runtime)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(EXPORT mebp NAMESPACE mebp:: FILE mebpConfig.cmake DESTINATION ${package} COMPONENT runtime)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mebpConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mebpConfigVersion.cmake DESTINATION ${package} COMPONENT runtime)

# From the folder of mebp.pc back to the prefix.
file(RELATIVE_PATH upwards /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
function(install_pkg_config library description)
  configure_file(cmake/library.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT runtime)
endfunction()
install_pkg_config(mebp "${PROJECT_DESCRIPTION}")
install_pkg_config(mebp_text "Text and conversations as the token ids that mebp trains on")
