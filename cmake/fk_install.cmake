# SPDX-License-Identifier: Apache-2.0
# What a vendor needs to build a plugin elsewhere: headers of the ABI and of every contract, the version
# script, and `find_package(fk_plugin)`; and what a user needs to run: binaries, registry, scenarios.
include(GNUInstallDirs)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME host)
set(fk_share ${CMAKE_INSTALL_DATADIR}/fk-host)
install(DIRECTORY plugin_api/fk DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.map")
install(DIRECTORY ${FK_GENERATED}/fk/ops DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fk FILES_MATCHING PATTERN "*.h")
install(DIRECTORY registry scenarios plugin_api/template plugin_api/adapters plugin_api/agents DESTINATION ${fk_share}
        PATTERN __pycache__ EXCLUDE)
# Sources that `fk-host new OP --task` copies.
install(DIRECTORY baselines/reference DESTINATION ${fk_share} FILES_MATCHING PATTERN "*.cpp" PATTERN "*.hpp")
# Where core/base/paths.cpp looks, whatever the distribution's library folder is.
install(DIRECTORY ${PROJECT_BINARY_DIR}/plugins/ DESTINATION lib/fk-host/plugins
        FILES_MATCHING PATTERN "*.so" PATTERN "missing.txt")
install(DIRECTORY ${PROJECT_BINARY_DIR}/backends/ DESTINATION lib/fk-host/backends FILES_MATCHING PATTERN "*.so")
install(TARGETS fk_torch LIBRARY DESTINATION lib/fk-host/shim)
install(TARGETS fk-host fk-header DESTINATION ${CMAKE_INSTALL_BINDIR})
# Man pages and completions, which the program itself prints.
install(CODE "
  set(root \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
  function(fk_manual what file)
    execute_process(COMMAND \"$<TARGET_FILE:fk-host>\" --manual=\${what} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
    file(WRITE \"\${root}/\${file}\" \"\${text}\")
  endfunction()
  fk_manual(man man/man1/fk-host.1)
  execute_process(COMMAND \"$<TARGET_FILE:fk-host>\" --manual=verbs OUTPUT_VARIABLE verbs COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE \"\\n\" \";\" verbs \"\${verbs}\")
  foreach(verb IN LISTS verbs)
    if(verb)
      fk_manual(man:\${verb} man/man1/fk-host-\${verb}.1)
    endif()
  endforeach()
  fk_manual(bash bash-completion/completions/fk-host)
  fk_manual(zsh zsh/site-functions/_fk-host)
  fk_manual(fish fish/vendor_completions.d/fk-host.fish)" COMPONENT host)
# The distribution's libraries, for an archive which runs elsewhere: `cmake --install BUILD --component libraries`. A
# candidate needs the newest C++ runtime of its machine, so the compiler's libraries stay out, as do the driver's.
install(CODE "
  file(GLOB modules \"${PROJECT_BINARY_DIR}/plugins/*.so\" \"${PROJECT_BINARY_DIR}/backends/*.so\")
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES \"$<TARGET_FILE:fk-host>\" \"$<TARGET_FILE:fk-header>\" MODULES \${modules}
       RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR absent
       PRE_EXCLUDE_REGEXES [[^ld-linux]] [[^lib(c|m|dl|rt|pthread|resolv|stdc\\+\\+|gcc_s|gomp)\\.so]] [[^lib(cud|cublas|nv|nccl)]])
  if(absent)
    message(FATAL_ERROR \"not found: \${absent}\")
  endif()
  file(INSTALL \${found} DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/fk-host/lib\" FOLLOW_SYMLINK_CHAIN)"
        COMPONENT libraries EXCLUDE_FROM_ALL)
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/fk_plugin-config.cmake.in ${PROJECT_BINARY_DIR}/fk_plugin-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fk_plugin
                              PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_BINDIR fk_share)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fk_plugin-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fk_plugin-config.cmake ${PROJECT_BINARY_DIR}/fk_plugin-config-version.cmake
        cmake/fk_languages.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fk_plugin)
