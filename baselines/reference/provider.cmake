# SPDX-License-Identifier: Apache-2.0
#
# The oracle on the CPU: no dependencies, one thread. Folders have the names of the groups in registry/ops.

file(GLOB_RECURSE reference_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp
     ${CMAKE_CURRENT_LIST_DIR}/layers/*.cpp)
fk_add_plugin(reference SOURCES ${reference_sources})
target_include_directories(plugin_reference PRIVATE ${CMAKE_CURRENT_LIST_DIR})
target_include_directories(plugin_reference PRIVATE ${CMAKE_CURRENT_LIST_DIR})
# No contraction: the same bits from every compiler and instruction set.
target_compile_options(plugin_reference PRIVATE -O3 -ffp-contract=off -Wconversion -Wshadow -Werror)
