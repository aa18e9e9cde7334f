// SPDX-License-Identifier: Apache-2.0
// fk-host: finds the verb, parses its options and runs it. An exception becomes one line on stderr
// and an exit code.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cli/terminal.hpp"
#include "core/cli/verb.hpp"

namespace fk {

namespace {

std::vector<Verb>& registered() {
  static std::vector<Verb> list;
  return list;
}

int refuse(const std::string& text, int code) {
  constexpr size_t kMost = 4000;  // bytes; the text may contain names of files, and so anything
  std::fprintf(stderr, "fk-host: %s\n", excerpt(text, kMost).c_str());
  return code;
}

// CLI11 would name neither the word nor similar ones.
std::string unknown_verb(int argc, const char* const* argv, const std::vector<Verb>& known) {
  if (argc < 2 || argv[1][0] == '-') return {};
  std::vector<std::string> names;
  for (const auto& verb : known) {
    if (verb.name == argv[1]) return {};
    if (!verb.help.empty()) names.push_back(verb.name);
  }
  return Error("", "unknown command `" + excerpt(argv[1]) + "`", did_you_mean(argv[1], names))
      .what();
}

int main_of(int argc, char** given) {
  std::signal(SIGPIPE, SIG_IGN);  // `fk-host list | head` ends by a failed write, not by a signal
  std::signal(SIGXFSZ, SIG_IGN);  // also for a file beyond `ulimit -f`
  const auto known = verbs();
  std::vector<const char*> words(given, given + argc);
  for (const auto& verb : known)
    if (argc >= 2 && verb.alias == words[1]) words[1] = verb.name.c_str();
  const char* const* argv = words.data();
  // A worker's streams belong to its plugins too. The controller prints a worker's messages.
  const bool runner = std::any_of(known.begin(), known.end(), [&](const Verb& verb) {
    return verb.help.empty() && argc >= 2 && verb.name == argv[1];
  });
  if (!runner) guard_terminal();
  if (const auto text = unknown_verb(argc, argv, known); !text.empty())
    return refuse(text, kExitUsage);
  CLI::App app("Loads kernels as plugins into whole models and judges them there.", "fk-host");
  app.set_version_flag("--version", "fk-host " FK_VERSION);
  app.require_subcommand(1);
  std::function<int()> action;
  for (const auto& verb : known) {
    // Only the requested verb declares its options, which keeps the start short.
    CLI::App* sub = app.add_subcommand(verb.name, verb.help);
    if (verb.help.empty()) sub->group("");
    if (argc >= 2 && verb.name == argv[1]) action = verb.add(Options(*sub));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, bad;
    const bool asked = app.exit(error, out, bad) == 0;
    std::fputs(out.str().c_str(), stdout);
    std::fputs(bad.str().c_str(), stderr);
    return asked ? kExitOk : kExitUsage;
  }
  return action();
}

}  // namespace

std::vector<Verb> verbs() {
  auto list = registered();
  std::sort(list.begin(), list.end(), [](const Verb& a, const Verb& b) { return a.name < b.name; });
  return list;
}

VerbRegistration::VerbRegistration(const char* name, const char* help,
                                   std::function<int()> (*add)(const Options&), const char* alias) {
  registered().push_back({.name = name, .help = help, .add = add, .alias = alias});
}

}  // namespace fk

int main(int argc, char** argv) {
  try {
    return fk::main_of(argc, argv);
  } catch (const fk::HostError& error) {
    return fk::refuse(error.what(), fk::kExitEnvironment);
  } catch (const fk::Error& error) {
    return fk::refuse(error.what(), fk::kExitUsage);
  } catch (const std::exception& error) {
    return fk::refuse(error.what(), fk::kExitEnvironment);
  }
}
