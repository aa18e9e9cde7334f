# SPDX-License-Identifier: Apache-2.0
# What a vendor needs to build a plugin elsewhere: headers of the ABI and of every contract, the version
# script, and `find_package(fk_plugin)`; and what a user needs to run: binaries, registry, scenarios.
include(GNUInstallDirs)
set(fk_share ${CMAKE_INSTALL_DATADIR}/fk-host)
install(DIRECTORY plugin_api/fk DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "plugin.map")
install(DIRECTORY ${FK_GENERATED}/fk/ops DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fk FILES_MATCHING PATTERN "*.h")
install(DIRECTORY registry scenarios plugin_api/template plugin_api/adapters DESTINATION ${fk_share}
        PATTERN __pycache__ EXCLUDE)
# Where core/base/paths.cpp looks, whatever the distribution's library folder is.
install(DIRECTORY ${PROJECT_BINARY_DIR}/plugins/ DESTINATION lib/fk-host/plugins
        FILES_MATCHING PATTERN "*.so" PATTERN "missing.txt")
install(TARGETS fk_torch LIBRARY DESTINATION lib/fk-host/shim)
install(TARGETS fk-host fk-header DESTINATION ${CMAKE_INSTALL_BINDIR})
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/fk_plugin-config.cmake.in ${PROJECT_BINARY_DIR}/fk_plugin-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fk_plugin
                              PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fk_plugin-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fk_plugin-config.cmake ${PROJECT_BINARY_DIR}/fk_plugin-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fk_plugin)
