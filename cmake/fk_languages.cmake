# SPDX-License-Identifier: Apache-2.0
# Sources in languages with a folder of their own (adapters/NAME/language.yaml): fk-host build knows them by the same files.

# fk_translate(<target> <source> <header>): true in `fk_translated` if <source> is in such a language. Its C++ file and its library are then
# made by the language's build.py, and belong to <target>. <header>: the op's fk/ops/OP.h.
function(fk_translate target source header)
  set(fk_translated FALSE PARENT_SCOPE)
  get_filename_component(extension ${source} LAST_EXT)
  get_filename_component(path ${source} ABSOLUTE)
  file(GLOB languages ${fk_plugin_ADAPTERS}/*/language.yaml)
  foreach(language ${languages})
    file(STRINGS ${language} keys)
    if(NOT keys MATCHES "extension: \"([^\"]*)\"" OR NOT CMAKE_MATCH_1 STREQUAL extension)
      continue()
    endif()
    string(REGEX MATCH "marker: \"([^\"]*)\"" marker "${keys}")
    file(READ ${path} text)
    string(FIND "${text}" "${CMAKE_MATCH_1}" at)
    if(at EQUAL -1)
      continue()
    endif()
    get_filename_component(adapter ${language} DIRECTORY)
    get_filename_component(folder ${path} DIRECTORY)
    file(GLOB shared CONFIGURE_DEPENDS ${folder}/_*${extension})
    find_package(Python3 COMPONENTS Interpreter REQUIRED)
    set(python ${Python3_EXECUTABLE})
    if(DEFINED ENV{PYTHON})
      set(python $ENV{PYTHON})
    endif()
    set(arch 90a)
    if(DEFINED ENV{FK_CUDA_ARCH})
      set(arch $ENV{FK_CUDA_ARCH})
    endif()
    get_filename_component(stem ${source} NAME)
    set(made ${CMAKE_CURRENT_BINARY_DIR}/${target}.made/${stem})
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${target}.made)
    # `ar` makes an empty library for a language whose C++ file is all.
    add_custom_command(OUTPUT ${made}.cpp ${made}.a
      COMMAND ${CMAKE_COMMAND} -E rm -f ${made}.a
      COMMAND ${python} ${adapter}/build.py ${path} --header ${header} --arch ${arch} --out ${made}.cpp
      COMMAND ${CMAKE_AR} qc ${made}.a
      DEPENDS ${path} ${shared} ${header} COMMENT "${source}")
    target_sources(${target} PRIVATE ${made}.cpp)
    target_link_libraries(${target} PRIVATE ${made}.a)
    target_include_directories(${target} PRIVATE ${adapter})
    if(NOT keys MATCHES "device: cpu")
      find_package(CUDAToolkit REQUIRED)
      target_link_libraries(${target} PRIVATE CUDA::cudart)
      target_compile_definitions(${target} PRIVATE FK_BUILD_SM="${arch}")
    endif()
    set(fk_translated TRUE PARENT_SCOPE)
    return()
  endforeach()
endfunction()
