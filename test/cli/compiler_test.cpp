// SPDX-License-Identifier: Apache-2.0
// A compiler reads what a stranger wrote: it takes a limited time, writes into one folder and reads
// what it is given.
#include "core/cli/compiler.hpp"
#include "core/base/clock.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
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
                        {{all / "given"}, all / "made", "", seconds}, &said);
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

TEST_CASE("compiler_is_ended_with_its_programs_by_what_ends_the_host") {
  const Folders folders;
  const fs::path told = folders.all / "made/pid";
  const pid_t host = ::fork();
  if (host == 0) {
    std::string said;
    folders.run("sleep 60 & echo $! > made/new; mv made/new made/pid; wait", said);
    ::_exit(0);
  }
  const auto soon = [](const auto& is_so) {
    for (const double end = now_seconds() + 10; !is_so() && now_seconds() < end;) ::usleep(10000);
    return is_so();
  };
  REQUIRE(soon([&] { return fs::exists(told); }));
  CHECK(::kill(host, SIGINT) == 0);
  int status = 0;
  CHECK(::waitpid(host, &status, 0) == host);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGINT));
  std::string pid;
  std::ifstream(told) >> pid;
  CHECK(soon([&] {  // dead, and perhaps not buried
    std::string number, name, state = "gone";
    std::ifstream("/proc/" + pid + "/stat") >> number >> name >> state;
    return state == "Z" || state == "X" || state == "gone";
  }));
}

TEST_CASE("compiler_says_how_it_ended") {
  const Folders folders;
  std::string said;
  CHECK(folders.run("echo words; exit 3", said) == 3);
  CHECK(said == "words\n");
  CHECK(run_compiler({"there-is-no-such-compiler"}, {{}, folders.all / "made", ""}, &said) == 127);
  // Where it starts is where names in its words begin.
  said.clear();
  CHECK(run_compiler({"cat", "text"}, {{}, folders.all / "made", folders.all / "made"}, &said) ==
        0);
  CHECK(said == "made\n");
}

TEST_CASE("compiler_knows_its_own_variables_and_no_secret") {
  const Folders folders;
  for (const char* name : {"FK_REDIS", "FK_TOKEN", "REDISCLI_AUTH", "OPENAI_API_KEY", "NVCC"})
    ::setenv(name, "of-the-user", 1);
  std::string said;
  CHECK(folders.run("env", said) == 0);
  CHECK_THAT(said, ContainsSubstring("NVCC=of-the-user") && ContainsSubstring("PATH="));
  for (const char* name : {"FK_REDIS", "FK_TOKEN", "REDISCLI_AUTH", "OPENAI_API_KEY"})
    CHECK_THAT(said, !ContainsSubstring(name));
  for (const char* name : {"FK_REDIS", "FK_TOKEN", "REDISCLI_AUTH", "OPENAI_API_KEY", "NVCC"})
    ::unsetenv(name);
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

TEST_CASE("compiler_words_begin_with_the_error_and_the_place_in_the_sources_at_hand") {
  struct Row {
    const char *said, *first, *next;
  };
  const Row rows[] = {
      {"norm.cpp: In function 'void f()':\nnorm.cpp:12:15: error: expected ';'\n   12 | int x\n",
       "norm.cpp:12:15: error: expected ';'", ""},
      // A quoted source line may have the word in it.
      {"norm.cpp:3:1: warning: unused\n    3 | fatal error: no\nnorm.cpp:9:1: error: no\n",
       "norm.cpp:9:1: error: no", ""},
      {"In file included from /build/fk/ops/norm.h:10,\n                 from norm.cpp:1:\n"
       "/fk/plugin.hpp: In instantiation of 'create(fk_error *)' [with fk_error = fk_error]:\n"
       "norm.cpp:40:1:   required from here\n/fk/plugin.hpp:88:15: error: no matching function\n",
       "/fk/plugin.hpp:88:15: error: no matching function, from norm.cpp:40",
       "the wrong parameters"},
      {"ptxas /tmp/x.ptx, line 5; warning\nptxas fatal   : Unresolved extern\n",
       "ptxas fatal   : Unresolved extern", ""},
      {"In file included from norm.cpp:2:\n/usr/include/x.h:1:2: error: no\n",
       "/usr/include/x.h:1:2: error: no, from norm.cpp:2", ""},
      {"norm.cu(12): error: identifier \"x\" is undefined\n",
       "norm.cu(12): error: identifier \"x\" is undefined", ""},
      {"/usr/bin/ld: /tmp/0.o: in function `f':\nnorm.cpp:(.text+0xda): undefined reference to "
       "`g'\n",
       "norm.cpp:(.text+0xda): undefined reference to `g'", "Define what is missing"},
      {"/usr/bin/ld: /tmp/0.o:(.data+0x18): undefined reference to `__start_fk_ops'\n",
       "/usr/bin/ld: /tmp/0.o:(.data+0x18): undefined reference to `__start_fk_ops'",
       "Add FK_OP(op, Class)"},
      {"norm.cpp:1:10: fatal error: torch/torch.h: No such file or directory\n",
       "norm.cpp:1:10: fatal error: torch/torch.h: No such file or directory", "system's headers"},
      {"killed\n", "the compiler ended with an error", ""}};
  for (const Row& row : rows) {
    INFO(row.said);
    CHECK(first_error(row.said) == row.first);
    CHECK_THAT(next_of_error(row.said), ContainsSubstring(row.next));
  }
  std::string much;
  for (int i = 0; i < 10000; ++i) much += "norm.cpp:" + std::to_string(i) + ": note\n";
  CHECK(cut_words(much).size() < 20000);
  CHECK_THAT(cut_words(much), ContainsSubstring("lines more]\n"));
  CHECK(cut_words("short\n") == "short\n");
}
