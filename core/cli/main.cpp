// SPDX-License-Identifier: Apache-2.0
// fk-host: finds the verb, parses its options and runs it. An exception becomes one line on stderr
// and an exit code.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <list>
#include <sstream>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cli/manual.hpp"
#include "core/cli/output.hpp"
#include "core/cli/terminal.hpp"
#include "core/cli/verb.hpp"
#include "core/report/table.hpp"

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

// The words with the verb first and by its newer name, and `help VERB` as `VERB --help`.
std::vector<const char*> rewritten(int argc, char** given, const std::vector<Verb>& known) {
  std::vector<const char*> words(given, given + argc);
  const std::string_view first = argc >= 2 ? words[1] : "";
  const int before = first == "--color" ? 2 : first.starts_with("--color=") ? 1 : 0;
  if (before && argc >= 2 + before)
    std::rotate(words.begin() + 1, words.begin() + 1 + before, words.begin() + 2 + before);
  if (argc >= 2 && std::string_view(words[1]) == "help") {
    words.erase(words.begin() + 1);
    words.resize(std::min<size_t>(words.size(), 2));
    words.push_back("--help");
  }
  for (const auto& verb : known)
    if (words.size() >= 2 && verb.alias == words[1]) words[1] = verb.name.c_str();
  return words;
}

// A hint for the first option that neither the program nor the verb has; else empty.
std::string mistyped_option(const CLI::App& app, const std::vector<const char*>& words) {
  std::vector<std::string> options;
  std::vector<const CLI::App*> apps = app.get_subcommands({});
  apps.push_back(&app);
  for (const CLI::App* one : apps)
    for (const CLI::Option* option : one->get_options())
      for (const auto& name : option->get_lnames())
        if (const std::string word = "--" + name; !contains(options, word)) options.push_back(word);
  for (const std::string_view word : words) {
    if (word == "--") break;
    const std::string name(word.substr(0, word.find('=')));
    if (starts_with(name, "--") && !contains(options, name)) return did_you_mean(name, options);
  }
  return {};
}

int main_of(int argc, char** given) {
  std::signal(SIGPIPE, SIG_IGN);  // `fk-host list | head` ends by a failed write, not by a signal
  std::signal(SIGXFSZ, SIG_IGN);  // also for a file beyond `ulimit -f`
  const auto known = verbs();
  const std::vector<const char*> words = rewritten(argc, given, known);
  argc = static_cast<int>(words.size());
  const char* const* argv = words.data();
  // A worker's streams belong to its plugins too. The controller prints a worker's messages.
  const bool runner = std::any_of(known.begin(), known.end(), [&](const Verb& verb) {
    return verb.help.empty() && argc >= 2 && verb.name == argv[1];
  });
  if (runner)  // its plugins' lines arrive, even if it is killed
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  else
    guard_terminal();
  const bool as_json = wants_json(argc, argv);
  try {
    need_verb(argc, argv, known);
  } catch (const Error& error) {
    return refuse("", error, as_json);
  }
  CLI::App app("Loads kernels as plugins into whole models and judges them there.", "fk-host");
  app.set_version_flag("-V,--version", "fk-host " FK_VERSION);
  app.fallthrough();
  std::string colour = "auto", manual;
  app.add_option("--color", colour, "auto (the default), always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--manual", manual)->group("");  // see manual.hpp
  app.footer("`fk-host help VERB` prints the options of a verb.");
  std::function<int()> action;
  std::vector<std::function<int()>> others;  // they own the options of the verbs of a manual
  const bool as_manual = argc >= 2 && is_manual(argv[1]);
  if (!as_manual) app.require_subcommand(1);
  std::string asked_for;            // the verb
  std::list<JsonOutput> of_errors;  // of verbs without documents
  for (const auto& verb : known) {
    // Only the requested verb declares its options, which keeps the start short.
    CLI::App* sub = app.add_subcommand(verb.name, verb.help);
    if (verb.help.empty()) sub->group("");
    sub->footer("");
    const bool asked = argc >= 2 && verb.name == argv[1];
    if (!asked && (!as_manual || verb.help.empty())) continue;
    auto run = verb.add(Options(*sub));
    if (!verb.help.empty() && !sub->get_option_no_throw("--json"))
      of_errors.emplace_back().declare(
          Options(*sub), "write an error as JSON: to a file, or to the standard output");
    if (asked) asked_for = verb.name;
    (asked ? action : others.emplace_back()) = std::move(run);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, bad;
    const bool asked = app.exit(error, out, bad) == 0;
    std::fputs(out.str().c_str(), stdout);
    const std::string hint = asked ? "" : mistyped_option(app, words);
    std::fprintf(stderr, "%s%s%s", bad.str().c_str(), hint.c_str(), hint.empty() ? "" : "\n");
    if (!asked && as_json) print_json_error(asked_for, Error("", error.what(), hint), kExitUsage);
    return asked ? kExitOk : kExitUsage;
  }
  want_colour(colour);
  try {
    if (!manual.empty()) return std::fputs(manual_text(app, manual).c_str(), stdout), kExitOk;
    if (!of_errors.empty() && of_errors.front().given()) of_errors.front().open();
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
