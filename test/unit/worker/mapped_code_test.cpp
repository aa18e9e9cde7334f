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
    for (const auto& [path, file] : code)
      if (path.find(part) != std::string::npos) return true;
    return false;
  };
  CHECK(named("fk_unit_tests"));
  CHECK(named("libc.so"));
  CHECK(mapped_code(-1).empty());
}

TEST_CASE("mapped_code_of_another_file_is_found") {
  const auto before = mapped_code(getpid());
  CHECK(foreign_code(before, mapped_code(getpid()), "mine-", false).empty());
  const int memory = memfd_create("libc.so.6", 0);
  REQUIRE(ftruncate(memory, 4096) == 0);
  void* at = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, memory, 0);
  REQUIRE(at != MAP_FAILED);
  CHECK(foreign_code(before, mapped_code(getpid()), "mine-", false) ==
        "/memfd:libc.so.6 (deleted)");
  munmap(at, 4096);
  close(memory);
  CHECK(foreign_code({}, {{"/usr/lib/libm.so.6", ""}, {"/cache/mine-0123.so", ""}}, "mine-", false)
            .empty());
  CHECK(foreign_code({}, {{"/tmp/libm.so.6", ""}}, "mine-", false) == "/tmp/libm.so.6");
}

TEST_CASE("kernels from the folder of a driver's compiler are the candidate's, others are not") {
  const auto foreign = [](const std::string& path, const std::string& compiled) {
    return foreign_code({}, {{path, ""}}, "mine-", /*driver=*/true, compiled);
  };
  CHECK(foreign("/tmp/fk-compiled-7/OL/add.so", "/tmp/fk-compiled-7/").empty());
  CHECK_FALSE(foreign("/tmp/fk-compiled-8/OL/add.so", "/tmp/fk-compiled-7/").empty());
  CHECK_FALSE(foreign("/tmp/fk-compiled-7/OL/add.so", "").empty());
}

TEST_CASE("mapped_code_of_a_file_that_was_deleted_since_is_what_it_was") {
  const MappedCode before = {{"/opt/fk-host", "08:01 17"}, {"/usr/lib/libc.so.6", "08:01 18"}};
  const auto foreign = [&](const std::string& path, const std::string& file) {
    return foreign_code(before, {{path, file}}, "mine-", false);
  };
  CHECK(foreign("/opt/fk-host (deleted)", "08:01 17").empty());
  CHECK_FALSE(foreign("/opt/fk-host (deleted)", "08:01 19").empty());
  CHECK_FALSE(foreign("/opt/fk-host (deleted)", "08:02 17").empty());
  CHECK_FALSE(foreign("/opt/other", "").empty());
}

TEST_CASE("code that a driver loads by itself is not held against a candidate, a library is") {
  const std::string usr = "/usr/lib/x86_64-linux-gnu/", odd = "/run/opengl-driver/lib/";
  MappedCode before;
  for (const auto& path :
       {usr + "libcuda.so.580.1", usr + "libc.so.6", std::string("/build/plugins/cudnn.so"),
        std::string("/opt/cudnn/libcudnn.so.9"), odd + "libcuda.so.580.1"})
    before[path] = "";
  const auto foreign = [&](const std::string& path, bool driver) {
    MappedCode now = before;
    now[path] = "";
    return foreign_code(before, now, "mine-", driver);
  };
  for (const auto& path : {usr + "libnvidia-ptxjitcompiler.so.580.1", usr + "libcudart.so.13",
                           odd + "libnvidia-nvvm.so.4", usr + "libnvJitLink.so.13",
                           std::string("/opt/cudnn/libcudnn_ops.so.9")})
    CHECK(foreign(path, true).empty());
  // Nothing of that where there is no driver.
  CHECK(foreign(usr + "libnvidia-ptxjitcompiler.so.580.1", false) ==
        usr + "libnvidia-ptxjitcompiler.so.580.1");
  // Ready kernels, production code in memory or beside the plugin, names that only look right.
  for (const auto& path :
       {usr + "libcublasLt.so.13", std::string("/usr/local/cuda/lib64/libcublas.so.13"),
        usr + "libnccl.so.2", std::string("/build/plugins/cublas.so"),
        std::string("/memfd:libnvidia-kernel (deleted)"), std::string("/tmp/libcuda.so.1"),
        std::string("/memfd:libcudnn.so.9 (deleted)"), std::string("/tmp/libcudnn_ops.so.9")})
    CHECK(foreign(path, true) == path);
}
