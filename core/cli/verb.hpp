// SPDX-License-Identifier: Apache-2.0
// A verb of the command line: `fk-host run`, `fk-host check`. One file core/cli/<verb>.cpp
// registers one verb; there is no central list. Exit codes of all verbs: 0 success; 1 a judged
// thing failed; 2 bad input or usage; 3 the environment (or a baseline) failed.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/cli/options.hpp"

namespace fk {

enum ExitCode : int { kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitEnvironment = 3 };

struct Verb {
  std::string name;
  std::string help;  // one line; empty hides the verb
  // Declares options on the verb's sub-command, and returns the function to run after parsing. That
  // function best holds the options' storage in a shared_ptr. It returns an ExitCode. Its fk::Error
  // is printed to stderr and ends with code 2.
  std::function<int()> (*add)(const Options& app) = nullptr;
  std::string alias = {};  // an older name, which the help does not list; empty: none
};

// Ordered by name.
std::vector<Verb> verbs();

struct VerbRegistration {
  VerbRegistration(const char* name, const char* help, std::function<int()> (*add)(const Options&),
                   const char* alias = "");
};

}  // namespace fk

// At file scope: FK_VERB(run, "run a scenario", add), and behind `add` perhaps an older name.
#define FK_VERB(name, help, ...) \
  static const ::fk::VerbRegistration fk_verb_##name(#name, help, __VA_ARGS__)
