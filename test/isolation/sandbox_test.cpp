// SPDX-License-Identifier: Apache-2.0
// A sealed worker refuses a candidate's forbidden acts, and names an act that ends the process. The
// host goes on.
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/io.hpp"
#include "core/base/json.hpp"
#include "core/worker/rank_group.hpp"
#include "core/worker/runner.hpp"
#include "core/worker/sandbox.hpp"
#include "test/folder.hpp"
#include "test/shell.hpp"

namespace {

using fk::Json;

struct Checked {
  bool passed = false;
  std::string rule, text;  // of the first row that is not right
  size_t rows = 0;
};

// Checks the candidate with one offence in its calls.
Checked check(const std::string& offence, const std::string& target = "/etc/passwd") {
  const Shell out =
      shell("FK_OFFENCE=" + offence + " FK_OFFENCE_TARGET=" + target +
            " FK_CANDIDATES=" FK_ISOLATION "/offend timeout 60 " FK_HOST " check offend --json -");
  CAPTURE(offence, out.text);
  REQUIRE((out.code == 0 || out.code == 1));
  const Json report = fk::parse_json(out.text, "report");
  Checked checked{report.at("passed").get<bool>(), "", "", report.at("rows").size()};
  for (const auto& row : report.at("rows")) {
    if (row.at("status") != "violation" && row.at("status") != "wrong") continue;
    checked.rule = row.at("rule").get<std::string>();
    checked.text = row.at("text").get<std::string>();
    break;
  }
  return checked;
}

void ends_it(const std::string& offence, const std::string& call,
             const std::string& target = "/etc/passwd") {
  const Checked got = check(offence, target);
  CAPTURE(offence, got.text);
  CHECK_FALSE(got.passed);
  CHECK(got.rule == "sandbox");
  CHECK_THAT(got.text, ContainsSubstring("refused: it called " + call));
}

// An error number reaches the plugin, which says so and is asked for the next case.
void fails_in(const std::string& offence, const std::string& target = "/etc/passwd") {
  const Checked got = check(offence, target);
  CAPTURE(offence, target, got.text);
  CHECK_FALSE(got.passed);
  CHECK(got.rule == "forward");
  const bool refused = got.text.find("not permitted") != std::string::npos ||
                       got.text.find("denied") != std::string::npos;
  CHECK(refused);
  CHECK(got.rows > 10);
}

}  // namespace

TEST_CASE("sandbox_honest_candidates_pass") {
  for (const char* what :
       {"", "own_file", "maps", "limits_read", "handlers_read", "threads", "openmp"}) {
    const Checked got = check(what);
    CAPTURE(what, got.text);
    CHECK(got.passed);
  }
}

// Another user may not enter the folder of the file that it is to load.
TEST_CASE("sandbox_loads_from_private_folders") {
  const auto folder = std::filesystem::temp_directory_path() / "fk_sandbox_private";
  std::filesystem::create_directories(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  ::setenv("FK_CACHE", folder.c_str(), 1);
  for (const char* what : {"", "own_file"}) {
    const Checked got = check(what);
    CAPTURE(what, got.text);
    CHECK(got.passed);
  }
  ::unsetenv("FK_CACHE");
  std::filesystem::remove_all(folder);
}

// Other candidates' copies lie there, too.
TEST_CASE("sandbox_on_a_GPU_reads_no_folder_of_copies_by_whatever_name") {
  namespace fs = std::filesystem;
  const Folder folder;
  const fs::path before = fs::current_path(), copies = folder.path / "plugins";
  fs::create_directories(copies);
  fs::copy_file(FK_ISOLATION "/right/isolation_right.so", copies / "right.so");
  void* const loaded = ::dlopen((copies / "right.so").c_str(), RTLD_LAZY);
  REQUIRE(loaded);
  for (const std::string& cache : {folder.path.string(), folder.path.string() + "/",
                                   std::string("."), "../" + folder.path.filename().string()}) {
    fs::current_path(folder.path);
    ::setenv("FK_CACHE", cache.c_str(), 1);
    fk::stand_among_copies();
    const auto read = fk::SandboxPolicy::of("cuda:0").read;
    CAPTURE(cache);
    CHECK(std::find(read.begin(), read.end(), copies) == read.end());
  }
  ::unsetenv("FK_CACHE");
  fs::current_path(before);
  ::dlclose(loaded);
}

// The file may have been another one when its rules were looked at.
TEST_CASE("sandbox_loads_nothing_that_breaks_the_lint") {
  const Folder folder;
  ::setenv("FK_CACHE", folder.path.c_str(), 1);
  std::string contents = fk::read_file(FK_ISOLATION "/right/isolation_right.so");
  const auto load = [&](const std::string& name) {
    fk::Runner::Options options;
    options.executable = FK_HOST;
    fk::RankGroup runner(options, 1);
    fk::write_file_atomic(folder.path / name, contents);
    const auto loaded = runner.load({{folder.path / name, fk::Trust::candidate}});
    CAPTURE(runner.failed() ? runner.failure().sentence() : "");
    REQUIRE(loaded);
    return loaded->errors.at(0);
  };
  CHECK(load("right.so").empty());
  const std::string needed("libm.so.6", 10);
  const size_t at = contents.find(needed);
  REQUIRE(at != contents.npos);
  contents[at + 3] = 'x';
  CHECK_THAT(load("other.so"),
             ContainsSubstring("lint: needed: ") && ContainsSubstring("libx.so.6"));
  contents = "no library";
  CHECK_THAT(load("text.so"), ContainsSubstring("lint: structure: ") && ContainsSubstring("ELF"));
  ::unsetenv("FK_CACHE");
}

TEST_CASE("sandbox_rows_that_make_no_sense_end_the_runner_alone") {
  for (const char* row : {"5", "[]", "{\"status\":5}", "{\"text\":{}}", "{\"rank\":1}"}) {
    const Checked got = check("tell", "'{\"progress\":" + std::string(row) + "}'");
    CAPTURE(row, got.text);
    CHECK_FALSE(got.passed);
    CHECK(got.rule == "protocol");
    CHECK_THAT(got.text, ContainsSubstring("a malformed row"));
  }
  const Shell out =
      shell("FK_OFFENCE=tell FK_OFFENCE_TARGET='{\"progress\":5}' FK_CANDIDATES=" FK_ISOLATION
            "/offend timeout 60 " FK_HOST " bench rms_norm --size smoke --seconds 0.01 --json -");
  CAPTURE(out.text);
  CHECK(out.code == 1);
  CHECK_THAT(out.text, ContainsSubstring("a malformed row"));
}

TEST_CASE("sandbox_new_processes_end_the_runner") {
  ends_it("exec", "execve");
  ends_it("fork", "clone for a process");
  // It blocks all signals before the call, so nobody is left to name it.
  CHECK_THAT(check("spawn").text, ContainsSubstring("a system call that is not allowed"));
}

TEST_CASE("sandbox_other_processes_are_out_of_reach") {
  ends_it("ptrace", "ptrace");
  ends_it("peek", "process_vm_readv");
  ends_it("kill", "kill for another process");
  ends_it("kill_all", "kill for another process");
  ends_it("memory_of", "openat for writing");
  ends_it("slow", "setpriority for another process");
  for (const char* what : {"environment_of", "pin"}) fails_in(what);
}

TEST_CASE("sandbox_sockets_end_the_runner") {
  ends_it("socket", "socket");
  ends_it("local", "socket");
  ends_it("early", "socket");  // while it is loaded
  CHECK(check("blocked").rule == "sandbox");
}

TEST_CASE("sandbox_files_are_closed") {
  const auto folder = std::filesystem::temp_directory_path() / "fk_sandbox_test";
  std::filesystem::create_directories(folder);
  const std::string here = folder / "kept", fresh = folder / "new";
  std::ofstream(here) << "kept";
  fails_in("read");
  fails_in("read", FK_ISOLATION "/right/isolation_right.so");
  fails_in("list");
  for (const auto& target : {here, fresh}) ends_it("write", "openat for writing", target);
  ends_it("write_own", "openat for writing");
  ends_it("remove", "unlink", here);
  fails_in("library", FK_ISOLATION "/right/isolation_right.so");
  CHECK(std::filesystem::file_size(here) == 4);
  CHECK_FALSE(std::filesystem::exists(fresh));
  std::filesystem::remove_all(folder);
}

TEST_CASE("sandbox_cannot_be_loosened") {
  ends_it("handler", "rt_sigaction for SIGSYS");
  ends_it("limits", "prlimit64 for new limits");
  for (const char* what : {"outlive", "dump", "shared", "memfd"}) fails_in(what);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGXFSZ})
    fails_in("crash" + std::to_string(number));
  if (::geteuid() == 0) fails_in("root");
}

TEST_CASE("sandbox_limits_and_faults_are_told_in_words") {
  const auto told = [](const char* what, const char* rule, const std::string& words) {
    const Checked got = check(what);
    CAPTURE(what, got.text);
    CHECK(got.rule == rule);
    CHECK_THAT(got.text, ContainsSubstring(words));
  };
  told("grow", "sandbox", "it wrote to a file");
  told("stack", "crash", "its stack is used up, in isolation_offend");
  told("null", "crash", "SIGSEGV at address 0x0, of a null pointer in isolation_offend");
  told("garbage", "crash", "at an invalid (non-canonical) address");
  told("trap", "crash", "SIGTRAP, which it sent itself in isolation_offend");
  told("alarm", "crash", "SIGALRM: its own timer sent the signal");
  if (::geteuid() == 0) told("crowd", "crash", "with all threads that it may have, ");
}

TEST_CASE("sandbox_run_goes_on_after_a_refusal") {
  const Shell out =
      shell("FK_OFFENCE=exec FK_CANDIDATES=" FK_ISOLATION "/offend timeout 60 " FK_HOST
            " run smoke --profile tiny --device cpu --json -");
  CAPTURE(out.text);
  REQUIRE(out.code == 1);
  const Json report = fk::parse_json(out.text, "report");
  CHECK(report.at("baseline").at("verdict") == "correct");
  const Json& candidate = report.at("candidates").at(0);
  CHECK(candidate.at("verdict") == "failed");
  const auto why = candidate.at("why").get<std::string>();
  CHECK_THAT(why, ContainsSubstring("refused: it called execve in isolation_offend"));
  CHECK_THAT(why, ContainsSubstring("offend()"));  // the function, by its symbol
}

TEST_CASE("sandbox_runner_says_what_protects_it_and_counts_threads") {
  ::unsetenv("FK_OFFENCE");
  fk::Runner::Options options;
  options.executable = FK_HOST;
  fk::Runner runner(options);
  const std::vector<fk::PluginFile> files = {
      {FK_ISOLATION "/offend/isolation_offend.so", fk::Trust::candidate}};
  const auto loaded = runner.load(files);
  REQUIRE(loaded);
  CHECK(loaded->errors.at(0) == "");
  std::vector<std::string> names;
  for (const auto& p : runner.protections()) {
    CAPTURE(p.name, p.why);
    CHECK(p.active == p.why.empty());
    names.push_back(p.name);
    if (p.name == "own_user") CHECK((p.active || ::geteuid() != 0));
    if (p.name == "system_calls" || p.name == "limits") CHECK(p.active);
  }
  CHECK(names.size() == 8);
  CHECK(runner.threads() == 1);
  // As the kernel sees it.
  std::ifstream status("/proc/" + std::to_string(runner.pid()) + "/status");
  std::string text{std::istreambuf_iterator<char>(status), {}};
  CHECK_THAT(text, ContainsSubstring("NoNewPrivs:\t1"));
  CHECK_THAT(text, ContainsSubstring("Seccomp:\t2"));
  if (::geteuid() == 0) CHECK_THAT(text, !ContainsSubstring("Uid:\t0"));
  // It is used once.
  CHECK_FALSE(runner.load(files));
  CHECK_THAT(runner.failure().text, ContainsSubstring("loads nothing more"));
}

TEST_CASE("sandbox_can_be_turned_off_and_says_so") {
  fk::Runner::Options options;
  options.executable = FK_HOST;
  options.sandbox = false;
  fk::Runner runner(options);
  const auto loaded =
      runner.load({{FK_ISOLATION "/offend/isolation_offend.so", fk::Trust::candidate}});
  REQUIRE(loaded);
  REQUIRE(runner.protections().size() == 8);
  for (const auto& p : runner.protections()) CHECK_FALSE(p.active);
  CHECK(fk::sandbox_line(runner.protections()) ==
        "Sandbox: own_user, no_new_privileges, not_dumpable, limits, landlock_files, "
        "landlock_network, landlock_signals, system_calls are off (turned off by "
        "--no-sandbox)\n");
}

TEST_CASE("sandbox_is_in_the_reports") {
  const std::string candidates = "FK_CANDIDATES=" FK_ISOLATION "/offend timeout 60 " FK_HOST " ";
  const auto active = [](const Json& protections) {
    REQUIRE(protections.size() == 8);
    size_t count = 0;
    for (const auto& p : protections) count += p.at("active").get<bool>();
    return count;
  };
  const auto report = [&](const std::string& words) {
    const Shell out = shell(candidates + words + " --json -");
    CAPTURE(out.text);
    REQUIRE(out.code == 0);
    return fk::parse_json(out.text, words);
  };
  const std::string run = "run smoke --profile tiny --device cpu";
  const std::string bench = "bench rms_norm --size smoke --seconds 0.01 --provider offend";
  CHECK(active(report("check offend").at("protections")) >= 4);
  CHECK(active(report(run).at("candidates").at(0).at("protections")) >= 4);
  CHECK(active(report(bench).at("protections")) >= 4);
  CHECK(active(report("check offend --no-sandbox").at("protections")) == 0);
  const Shell out = shell(candidates + run + " --no-sandbox");
  CHECK_THAT(out.text, ContainsSubstring("system_calls are off (turned off by --no-sandbox)"));
}

namespace {

// From here on this process seems to be on a kernel without Landlock and filters, and may not
// change its user. Its children see the same.
void make_the_kernel_old() {
  const auto fails = [](long number, int code) {
    return std::array<sock_filter, 2>{
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(code))};
  };
  std::vector<sock_filter> code = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const auto& part : {fails(SYS_landlock_create_ruleset, ENOSYS), fails(SYS_seccomp, ENOSYS),
                           fails(SYS_setgroups, EPERM)})
    code.insert(code.end(), part.begin(), part.end());
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(9);
}

}  // namespace

TEST_CASE("sandbox_is_what_the_kernel_offers_and_says_so") {
  const std::string answer = std::filesystem::temp_directory_path() / "fk_sandbox_old_kernel.json";
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    make_the_kernel_old();
    const std::string command = "FK_CANDIDATES=" FK_ISOLATION "/offend timeout 60 " FK_HOST
                                " check offend --json " +
                                answer;
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(9);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  std::ifstream file(answer);
  const Json report =
      fk::parse_json(std::string{std::istreambuf_iterator<char>(file), {}}, "report");
  std::filesystem::remove(answer);
  CHECK(report.at("passed") == true);
  for (const auto& p : report.at("protections")) {
    CAPTURE(p.dump());
    const auto name = p.at("name").get<std::string>();
    const bool possible = name == "no_new_privileges" || name == "not_dumpable" || name == "limits";
    CHECK(p.at("active") == possible);
    CHECK(p.at("why").get<std::string>().empty() == possible);
  }
}
