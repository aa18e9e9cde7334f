// SPDX-License-Identifier: Apache-2.0
// Code of other files in a process is found, what a candidate may link is not held against it.
#include "core/worker/mapped_code.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

#include "test/catch.hpp"

using namespace fk;

TEST_CASE("mapped_code_knows_this_program_and_its_libraries") {
  const auto code = mapped_code(getpid());
  const auto named = [&](const std::string& part) {
    for (const auto& path : code)
      if (path.find(part) != std::string::npos) return true;
    return false;
  };
  CHECK(named("fk_unit_tests"));
  CHECK(named("libc.so"));
  CHECK(mapped_code(-1).empty());
}

TEST_CASE("mapped_code_of_another_file_is_found") {
  const auto before = mapped_code(getpid());
  CHECK(foreign_code(before, mapped_code(getpid()), "mine-").empty());
  const int memory = memfd_create("libc.so.6", 0);
  REQUIRE(ftruncate(memory, 4096) == 0);
  void* at = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, memory, 0);
  REQUIRE(at != MAP_FAILED);
  CHECK(foreign_code(before, mapped_code(getpid()), "mine-") == "/memfd:libc.so.6 (deleted)");
  munmap(at, 4096);
  close(memory);
  CHECK(foreign_code({}, {"/usr/lib/libm.so.6", "/cache/mine-0123.so"}, "mine-").empty());
  CHECK(foreign_code({}, {"/tmp/libm.so.6"}, "mine-") == "/tmp/libm.so.6");
}
