// SPDX-License-Identifier: Apache-2.0
// The content of a file of registry/devices is read, or refused with its place. A misspelt key
// would otherwise hide a peak.
#include "core/device/device_files.hpp"

#include <cstdlib>
#include <fstream>

#include "core/base/error.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

TEST_CASE("device_files_with_a_key_that_nobody_reads_are_refused") {
  const Folder folder;
  std::filesystem::create_directories(folder.path / "devices");
  std::ofstream(folder.path / "devices/typo.yaml") << "device: typo\nname: Mutant\n"
                                                      "memory_bandwidth: 1.0e12\n"
                                                      "link_bandwith: 1.0e9\n";
  ::setenv("FK_REGISTRY_PATH", folder.path.c_str(), 1);
  const std::string refusal = message_of<fk::Error>([] { fk::device_files(); });
  ::unsetenv("FK_REGISTRY_PATH");
  CHECK_THAT(refusal, ContainsSubstring("typo.yaml:4") && ContainsSubstring("link_bandwidth"));
}
