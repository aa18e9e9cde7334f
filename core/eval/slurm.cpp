// SPDX-License-Identifier: Apache-2.0
#include "core/eval/slurm.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/worker/process.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

constexpr double kSubmitSeconds = 120, kWaitSeconds = 30 * 86400.0;
constexpr int kNotFound = 127;  // a shell's code for a program which is not there

struct SbatchEnd {
  int code = 0;
  std::string said;
};

SbatchEnd sbatch(const std::vector<std::string>& options, double patience_s) {
  std::vector<std::string> words = {"-c", "exec \"$@\"", "sh", "sbatch", "--parsable"};
  words.insert(words.end(), options.begin(), options.end());
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) fail_host("/dev/null", "cannot be opened: " + errno_text());
  ChildProcess child("/bin/sh", words, null, nullptr, Environment::all);
  ::close(null);
  const auto status = child.wait(patience_s);
  child.read_log();
  SbatchEnd out{0, std::string(trim(child.log()))};
  if (!status) fail_host("sbatch", "does not answer within " + human_duration(patience_s));
  out.code = WIFEXITED(*status) ? WEXITSTATUS(*status) : 128;
  return out;
}

// "1234" of "1234;cluster", in the last line: warnings stand before it. Empty: there is none.
std::string job_number(const std::string& said) {
  const auto lines = split(said, '\n');
  const std::string number = lines.back().substr(0, lines.back().find(';'));
  const bool digits = !number.empty() && std::ranges::all_of(number, [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
  return digits ? number : "";
}

std::string each_replaced(const std::string& text, char one, const std::string& by) {
  std::string out;
  for (const char c : text) out += c == one ? by : std::string(1, c);
  return out;
}

std::string shell_word(const std::string& word) {
  return "'" + each_replaced(word, '\'', "'\\''") + "'";
}

// A file's name for an option of `sbatch`, where % begins a pattern.
std::string pattern_of(const fs::path& file) { return each_replaced(file.string(), '%', "%%"); }

std::string script_of(const std::vector<std::string>& words, const std::string& behind) {
  std::string out = "#!/bin/sh\nexec " + shell_word(fs::read_symlink("/proc/self/exe").string());
  for (const auto& word : words) out += " " + shell_word(word);
  return out + behind + "\n";
}

}  // namespace

SlurmEnd run_array(const SlurmArray& array,
                   const std::function<void(const std::string& number)>& on_begin) {
  const fs::path part = array.folder / "part.sh", last = array.folder / "last.sh";
  const std::string tasks = std::to_string(array.tasks);
  write_file_atomic(part, script_of(array.part, " --part \"$SLURM_ARRAY_TASK_ID/" + tasks + "\""));
  write_file_atomic(last, script_of(array.last, ""));
  const SbatchEnd begun =
      sbatch({"--job-name=" + array.name, "--array=1-" + tasks,
              "--output=" + pattern_of(array.folder / "part-") + "%A_%a.txt", part.string()},
             kSubmitSeconds);
  if (begun.code == kNotFound)
    fail_host("sbatch", "it cannot be started: " + excerpt(begun.said, 500),
              "Slurm's client programs (Debian: slurm-client)");
  const std::string number = job_number(begun.said);
  if (begun.code != 0 || number.empty())
    fail_host("sbatch", "it does not take the array: " + excerpt(begun.said, 500),
              "it has options in variables such as SBATCH_PARTITION");
  on_begin(number);
  SlurmEnd out;
  out.output = array.folder / ("last-" + number + ".out");
  out.errors = array.folder / ("last-" + number + ".err");
  const SbatchEnd ended = sbatch(
      {"--job-name=" + array.name + ".last", "--dependency=afterany:" + number, "--wait",
       "--output=" + pattern_of(out.output), "--error=" + pattern_of(out.errors), last.string()},
      kWaitSeconds);
  if (job_number(split(ended.said, '\n').front()).empty() && job_number(ended.said).empty())
    fail_host("sbatch", "it does not take the last job: " + excerpt(ended.said, 500),
              "the same command without --launcher makes the evaluation");
  out.code = ended.code;
  return out;
}

}  // namespace fk
