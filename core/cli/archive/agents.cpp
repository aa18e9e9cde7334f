// SPDX-License-Identifier: Apache-2.0
#include "core/cli/archive/agents.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/worker/process.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

fs::path agents_dir() {
  for (const char* dir : {"plugin_api/agents", "agents"}) {  // in the source tree; installed
    std::error_code none;
    if (fs::is_directory(paths::home() / dir, none)) return paths::home() / dir;
  }
  return {};
}

bool is_program(const std::string& word) {
  if (word.find('/') != word.npos) return ::access(word.c_str(), X_OK) == 0;
  return std::ranges::any_of(split(environment("PATH"), ':'), [&](const std::string& dir) {
    return ::access((fs::path(dir) / word).c_str(), X_OK) == 0;
  });
}

}  // namespace

std::vector<std::string> agent_command(const std::string& agent) {
  std::vector<std::string> words, known = {"mutate"};
  for (const auto& word : split(agent, ' '))
    if (!word.empty()) words.push_back(word);
  std::error_code none;
  if (const fs::path dir = agents_dir(); !dir.empty())
    for (const auto& entry : fs::directory_iterator(dir, none)) {
      if (entry.path().extension() != ".py") continue;
      known.push_back(entry.path().stem());
      if (words.size() == 1 && words[0] == entry.path().stem())
        return {"python3", entry.path().string()};
    }
  if (words.empty() || !is_program(words[0]))
    fail("--agent", "`" + excerpt(agent) + "` is no agent and no program",
         words.empty() ? "mutate" : did_you_mean(words[0], known));
  if (words[0].find('/') != std::string::npos) words[0] = fs::absolute(words[0]).string();
  return words;
}

std::string run_agent(const std::vector<std::string>& command, const fs::path& folder,
                      double seconds) {
  // The shell finds the program in PATH, and passes the words on as they are.
  std::vector<std::string> words = {"-c", "exec \"$@\"", "sh"};
  words.insert(words.end(), command.begin(), command.end());
  words.push_back(folder.string());
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) fail_host("/dev/null", "cannot be opened: " + errno_text());
  ChildProcess child("/bin/sh", words, null, nullptr, Environment::all);
  ::close(null);
  const auto status = child.wait(seconds);
  child.kill();
  child.read_log();
  const std::string log = child.log();
  write_file_atomic(folder / "agent.log", log);
  if (!status) return "the agent took more than " + human_duration(seconds);
  if (WIFSIGNALED(*status)) return "the agent was ended by " + signal_name(WTERMSIG(*status));
  if (WEXITSTATUS(*status) == 0) return {};
  const auto lines = split(std::string(trim(log)), '\n');
  return "the agent's exit code is " + std::to_string(WEXITSTATUS(*status)) + ": " +
         excerpt(lines.back(), 300);
}

}  // namespace fk
