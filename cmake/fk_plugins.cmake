# Headers from contracts, and plugins from folders: one folder below baselines/ is one provider is one .so.

set(FK_GENERATED ${PROJECT_BINARY_DIR}/gen)

# The build line of every plugin; `fk-host build` uses the same for candidates.
set(FK_PLUGIN_FLAGS -fPIC -fvisibility=hidden -Wall -Wextra)
set(FK_PLUGIN_FLAGS_CXX -fvisibility-inlines-hidden -fno-gnu-unique)
set(FK_PLUGIN_LINK -Wl,--version-script=${PROJECT_SOURCE_DIR}/plugin_api/fk/plugin.map -Wl,-z,now
                   -Wl,--exclude-libs,ALL -Wl,--build-id)
if(NOT FK_SANITIZE)
  list(APPEND FK_PLUGIN_LINK -Wl,-z,defs)
endif()

# Of a plugin with device code, or one that only a GPU's driver makes sense for: its note says so.
set(FK_PLUGIN_GPU FK_BUILD_SM="${CMAKE_CUDA_ARCHITECTURES}")

function(fk_generate_headers)
  file(GLOB_RECURSE contracts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/registry/ops/*.yaml)
  set(headers)
  foreach(contract ${contracts})
    get_filename_component(op ${contract} NAME_WE)
    set(header ${FK_GENERATED}/fk/ops/${op}.h)
    add_custom_command(
      OUTPUT ${header}.stamp BYPRODUCTS ${header}
      COMMAND fk-header ${FK_GENERATED}/fk/ops ${contract}
      COMMAND ${CMAKE_COMMAND} -E touch ${header}.stamp
      DEPENDS fk-header ${contract} COMMENT "fk/ops/${op}.h")
    list(APPEND headers ${header}.stamp)
  endforeach()
  add_custom_target(fk_headers DEPENDS ${headers})
endfunction()

# fk_add_plugin(name SOURCES... [DIR folder]): a loadable plugin <name>.so in build/plugins (or DIR).
function(fk_add_plugin name)
  cmake_parse_arguments(arg "" "DIR" "SOURCES" ${ARGN})
  if(NOT arg_DIR)
    set(arg_DIR ${PROJECT_BINARY_DIR}/plugins)
  endif()
  add_library(plugin_${name} MODULE ${arg_SOURCES})
  # No search path, which the lint refuses: what is linked is found where the loader looks, or where the program that loads it says.
  set_target_properties(plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${arg_DIR}
    SKIP_BUILD_RPATH ON INSTALL_RPATH_USE_LINK_PATH OFF)
  target_include_directories(plugin_${name} PRIVATE ${PROJECT_SOURCE_DIR}/plugin_api ${FK_GENERATED})
  target_compile_options(plugin_${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:C,CXX>:${FK_PLUGIN_FLAGS}>" "$<$<COMPILE_LANGUAGE:CXX>:${FK_PLUGIN_FLAGS_CXX}>"
    $<$<COMPILE_LANGUAGE:CUDA>:-diag-suppress=177>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fPIC,-fvisibility=hidden,-fvisibility-inlines-hidden,-fno-gnu-unique>)
  foreach(source ${arg_SOURCES})
    get_source_file_property(language ${source} LANGUAGE)
    if(fk_use_cuda AND source MATCHES "\\.cu$" AND NOT language STREQUAL CXX)
      target_compile_definitions(plugin_${name} PRIVATE ${FK_PLUGIN_GPU})
      break()
    endif()
  endforeach()
  target_link_options(plugin_${name} PRIVATE ${FK_PLUGIN_LINK})
  add_dependencies(plugin_${name} fk_headers)
endfunction()

# fk_add_backend(name SOURCES... [DIR folder]): a device backend <name>.so in build/backends (or DIR). It uses the installed headers alone.
function(fk_add_backend name)
  cmake_parse_arguments(arg "" "DIR" "SOURCES" ${ARGN})
  if(NOT arg_DIR)
    set(arg_DIR ${PROJECT_BINARY_DIR}/backends)
  endif()
  add_library(backend_${name} MODULE ${arg_SOURCES})
  set_target_properties(backend_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${arg_DIR} CXX_STANDARD 17
    SKIP_BUILD_RPATH ON INSTALL_RPATH_USE_LINK_PATH OFF)
  target_include_directories(backend_${name} PRIVATE ${PROJECT_SOURCE_DIR}/plugin_api ${PROJECT_SOURCE_DIR})
  target_compile_options(backend_${name} PRIVATE ${FK_PLUGIN_FLAGS} "$<$<COMPILE_LANGUAGE:CXX>:${FK_PLUGIN_FLAGS_CXX}>")
  set(link ${FK_PLUGIN_LINK})
  list(TRANSFORM link REPLACE "plugin.map" "backend.map")
  target_link_options(backend_${name} PRIVATE ${link})
endfunction()

# Every folder below backends/ has a backend.cmake. It may refuse by setting FK_BACKEND_MISSING to a sentence, or set FK_BACKEND_UNTRIED: the host
# is then built without it.
function(fk_add_backends)
  file(GLOB recipes CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backends/*/backend.cmake)
  set(targets)
  foreach(recipe ${recipes})
    get_filename_component(dir ${recipe} DIRECTORY)
    get_filename_component(name ${dir} NAME)
    set(FK_BACKEND_MISSING)
    set(FK_BACKEND_UNTRIED OFF)
    include(${recipe})
    if(FK_BACKEND_MISSING)
      message(STATUS "no backend ${name}: ${FK_BACKEND_MISSING}")
      # A library of an earlier configuration would still be found.
      file(REMOVE ${PROJECT_BINARY_DIR}/backends/${name}.so)
    elseif(NOT FK_BACKEND_UNTRIED)
      list(APPEND targets backend_${name})
    endif()
  endforeach()
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/backends)
  add_custom_target(fk_backends DEPENDS ${targets})
endfunction()

# Every folder below baselines/ that has a provider.cmake. That file may refuse by setting
# FK_PROVIDER_MISSING to a sentence, which `fk-host list plugins` shows.
function(fk_add_providers)
  file(GLOB recipes CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/baselines/*/provider.cmake)
  set(plugins)
  set(missing "")
  foreach(recipe ${recipes})
    get_filename_component(dir ${recipe} DIRECTORY)
    get_filename_component(name ${dir} NAME)
    set(FK_PROVIDER_MISSING)
    include(${recipe})
    if(FK_PROVIDER_MISSING)
      string(APPEND missing "${name}: ${FK_PROVIDER_MISSING}\n")
    else()
      list(APPEND plugins plugin_${name})
    endif()
  endforeach()
  file(WRITE ${PROJECT_BINARY_DIR}/plugins/missing.txt "${missing}")
  add_custom_target(fk_providers DEPENDS ${plugins})
endfunction()
