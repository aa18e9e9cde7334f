// SPDX-License-Identifier: Apache-2.0
// A compiler reads what a stranger wrote: it takes a limited time, writes into one folder and reads
// what it is given.
#include "core/cli/compiler.hpp"
#include "core/base/clock.hpp"

#include <unistd.h>

#include <fstream>

#include "core/worker/landlock.hpp"
#include "test/catch.hpp"

namespace fs = std::filesystem;
using namespace fk;

namespace {

struct Folders {
  Folders() {
    fs::remove_all(all);
    for (const char* name : {"made", "given", "other"}) {
      fs::create_directories(all / name);
      std::ofstream(all / name / "text") << name << "\n";
    }
  }
  ~Folders() { fs::remove_all(all); }
  int run(const std::string& script, std::string& said, double seconds = 60) const {
    return run_compiler({"sh", "-c", "cd " + all.string() + "; " + script},
                        {{all / "given"}, all / "made", seconds}, &said);
  }
  fs::path all = fs::temp_directory_path() / ("fk_compiler_" + std::to_string(::getpid()));
};

}  // namespace

TEST_CASE("compiler_that_does_not_end_is_ended_with_its_programs") {
  const Folders folders;
  std::string said;
  const double start = now_seconds();
  // The second program would keep the pipe open for a minute.
  CHECK(folders.run("echo begun; sleep 60 & wait", said, 1) == 128);
  CHECK(now_seconds() - start < 30);
  CHECK_THAT(said, ContainsSubstring("begun") && ContainsSubstring("was ended after"));
}

TEST_CASE("compiler_says_how_it_ended") {
  const Folders folders;
  std::string said;
  CHECK(folders.run("echo words; exit 3", said) == 3);
  CHECK(said == "words\n");
  CHECK(run_compiler({"there-is-no-such-compiler"}, {{}, folders.all / "made"}, &said) == 127);
}

TEST_CASE("compiler_reads_what_it_is_given_and_writes_into_one_folder") {
  const Folders folders;
  std::string said;
  CHECK(folders.run("cat made/text given/text; echo more >>made/text", said) == 0);
  CHECK(said == "made\ngiven\n");
  if (Landlock({}, {}).abi() == 0) return;  // then nothing holds it to that
  for (const char* script : {"cat other/text", "echo more >>given/text", "rm other/text",
                             "cp /bin/true made/mine && made/mine"}) {
    INFO(script);
    said.clear();
    CHECK(folders.run(script, said) != 0);
    CHECK_THAT(said, ContainsSubstring("denied"));
  }
  CHECK(fs::exists(folders.all / "other/text"));
}
