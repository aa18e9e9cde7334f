// SPDX-License-Identifier: Apache-2.0
// fk-host: finds the verb, parses its options and runs it. An exception becomes one line on stderr
// and an exit code.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/terminal.hpp"
#include "core/cli/verb.hpp"

namespace fk {

namespace {

std::vector<Verb>& registered() {
  static std::vector<Verb> list;
  return list;
}

// Exit code of an error: an Error is bad input, unless the machine refused a service.
int code_of(const std::exception& error) {
  const bool input = dynamic_cast<const Error*>(&error) && !dynamic_cast<const HostError*>(&error);
  return input ? kExitUsage : kExitEnvironment;
}

// True when a word asks for JSON. For errors before the options are known.
bool wants_json(int argc, const char* const* argv) {
  return std::any_of(argv, argv + argc, [](const std::string_view word) {
    return word == "--json" || word.starts_with("--json=");
  });
}

// Prints the error as a line, and as JSON where it was asked for. Returns the exit code.
int refuse(const std::string& verb, const std::exception& error, bool as_json) {
  constexpr size_t kMost = 4000;  // bytes; the text may contain names of files, and so anything
  const int code = code_of(error);
  std::fprintf(stderr, "fk-host: %s\n", excerpt(error.what(), kMost).c_str());
  if (as_json) print_json_error(verb, error, code);
  return code;
}

// CLI11 would name neither the word nor similar ones.
void need_verb(int argc, const char* const* argv, const std::vector<Verb>& known) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const auto& verb : known) {
    if (verb.name == argv[1]) return;
    if (!verb.help.empty()) names.push_back(verb.name);
  }
  fail("", "unknown command `" + excerpt(argv[1]) + "`", did_you_mean(argv[1], names));
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
  const bool as_json = wants_json(argc, argv);
  try {
    need_verb(argc, argv, known);
  } catch (const Error& error) {
    return refuse("", error, as_json);
  }
  CLI::App app("Loads kernels as plugins into whole models and judges them there.", "fk-host");
  app.set_version_flag("--version", "fk-host " FK_VERSION);
  app.require_subcommand(1);
  std::function<int()> action;
  std::string asked_for;  // the verb
  JsonOutput of_errors;   // of a verb without documents
  for (const auto& verb : known) {
    // Only the requested verb declares its options, which keeps the start short.
    CLI::App* sub = app.add_subcommand(verb.name, verb.help);
    if (verb.help.empty()) sub->group("");
    if (argc < 2 || verb.name != argv[1]) continue;
    action = verb.add(Options(*sub));
    asked_for = verb.name;
    if (!verb.help.empty() && !sub->get_option_no_throw("--json"))
      of_errors.declare(Options(*sub),
                        "write an error as JSON: to a file, or to the standard output");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, bad;
    const bool asked = app.exit(error, out, bad) == 0;
    std::fputs(out.str().c_str(), stdout);
    std::fputs(bad.str().c_str(), stderr);
    if (!asked && as_json) print_json_error(asked_for, Error("", error.what()), kExitUsage);
    return asked ? kExitOk : kExitUsage;
  }
  try {
    if (of_errors.given()) of_errors.open();
    return action();
  } catch (const std::exception& error) {
    return refuse(asked_for, error, as_json);
  }
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
  } catch (const std::exception& error) {
    return fk::refuse("", error, false);
  }
}
