// SPDX-License-Identifier: Apache-2.0
// fk-host new OP --name NAME: makes a folder in candidates/ that compiles as it is, with a README.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/check/plugin_set.hpp"
#include "core/cli/author/scaffold.hpp"
#include "core/cli/author/task.hpp"
#include "core/cli/language.hpp"
#include "core/cli/verb.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

struct NewArguments {
  std::string op, name, language = "cpp";
  bool task = false;
};

void check_name(const std::string& name) {
  bool good =
      !name.empty() && name.size() <= 48 && std::isalpha(static_cast<unsigned char>(name[0]));
  for (const char c : name) good &= std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  if (!good)
    fail("--name", "`" + excerpt(name) + "` is not a name",
         "letters, digits and _, a letter first, 48 at most");
}

// Nothing for the languages that compilers of this host take as they are.
std::optional<Language> language_named(const std::string& name) {
  std::vector<std::string> known = {"c", "cpp", "cu"};
  if (std::find(known.begin(), known.end(), name) != known.end()) return {};
  for (const auto& language : languages()) {
    if (language.name == name) return language;
    known.push_back(language.name);
  }
  fail("--lang", "`" + excerpt(name) + "` is not a language here", did_you_mean(name, known));
}

// The value of a complete source, in words.
const char* worth(const std::optional<Language>& language) {
  return language && !language->tested ? "plain, and its values are untested" : "plain and correct";
}

std::string page(const Contract& c, const NewArguments& a, const std::string& file, bool complete,
                 const std::string& worth) {
  std::string commands;
  const auto add = [&](const std::string& command, const std::string& about) {
    commands += fmt::format("{:<44} # {}\n", "fk-host " + command, about);
  };
  add("show " + c.op, "the contract: structs, rules, cases");
  add("build " + a.name, a.name + ".so, with the mandatory flags");
  add("check " + a.name, "conformance, and correctness against the reference");
  add("bench " + a.name, "the verdict: right, and how fast beside the best baseline");
  add("bench " + c.op, "time beside every other provider");
  add("run SCENARIO --candidate " + a.name, "in place in a whole model");
  add("watch SCENARIO", "and again after every save");
  return fmt::format(
      "# {}\n\n{}: {}\n\n{}\n\n```\n{}```\n", a.name, c.op, c.summary,
      complete ? fmt::format("`{}` is {}; make it fast.", file, worth)
               : fmt::format("`{}` compiles and refuses every case until `forward` is written and "
                             "`supports` says what it takes;\nthe baseline runs meanwhile.",
                             file),
      commands);
}

// TASK.md, and for a source that refuses every case the reference's in its place (C++), or on the
// page (other languages).
void write_task(const Contract& contract, const NewArguments& a, const fs::path& file,
                Scaffold& made, const std::string& worth) {
  const fs::path dir = file.parent_path();
  std::string shown = made.text, state = "It is right and slow.";
  if (made.complete && worth != std::string("plain and correct")) state = "It is " + worth + ".";
  if (!made.complete) {
    const std::vector<ScaffoldFile> reference = reference_scaffold(a.op, a.name);
    const bool in_place = a.language == "cpp" && !reference.empty();
    if (!reference.empty()) shown = reference.front().text;
    if (reference.empty()) {
      state = "It refuses every case until you write forward().";
    } else if (in_place) {
      for (const ScaffoldFile& one : reference) write_file_atomic(dir / one.name, one.text);
      made = {reference.front().text, true};
      state =
          "It is right and slow: the reference in float64. Its helpers are the headers beside it.";
    } else {
      // Not a unit of the candidate's build.
      for (const ScaffoldFile& one : reference)
        write_file_atomic(dir / "reference" / (one.name + ".txt"), one.text);
      state =
          "It refuses every case until you write forward(). `reference/` has the reference's "
          "source for the CPU, with its helpers.";
    }
  }
  write_file_atomic(dir / "TASK.md", task_page(contract, {a.name, file.filename(), shown, state}));
}

int make(const NewArguments& a) {
  check_name(a.name);
  const std::optional<Language> own = language_named(a.language);
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at(a.op);
  // A run could not distinguish the two.
  for (const auto& baseline : PluginSet::find(catalog).baselines)
    if (plugin_name(baseline) == a.name)
      fail("--name", "`" + a.name + "` is a baseline", "choose another");
  const fs::path dir = paths::candidates_dir() / a.name;
  std::error_code code;
  if (fs::exists(dir, code)) fail(dir.string(), "it is there already", "choose another --name");
  fs::create_directories(dir, code);
  if (code) fail(dir.string(), "cannot be made: " + code.message());
  const fs::path file = dir / (a.op + (own ? own->extension : "." + a.language));
  Scaffold made;
  try {
    made = own ? scaffold(contract, a.name, *own, dir) : scaffold(contract, a.name, a.language);
    write_file_atomic(file, made.text);
    if (a.task)
      write_task(contract, a, file, made, worth(own));
    else
      write_file_atomic(dir / "README.md",
                        page(contract, a, file.filename(), made.complete, worth(own)));
  } catch (...) {  // half a candidate would prevent the next attempt
    fs::remove_all(dir, code);
    throw;
  }
  std::printf("%s: %s\n", file.c_str(),
              made.complete ? worth(own) : "refuses every case until forward is written");
  if (a.task) std::printf("%s: the whole task\n", (dir / "TASK.md").c_str());
  std::printf("next: fk-host build %s && fk-host check %s\n", a.name.c_str(), a.name.c_str());
  return kExitOk;
}

std::function<int()> add_new(const Options& app) {
  auto a = std::make_shared<NewArguments>();
  app.add_option("OP", a->op, "the op to implement").required();
  const Option name =
      app.add_option("--name", a->name, "of the plugin and its folder (default: my_OP)");
  app.add_option("--lang", a->language,
                 "c, cpp (the default), cu, or a folder of plugin_api/adapters: rust, triton ...");
  app.add_flag("--task", a->task,
               "write TASK.md, one page with all that an agent needs, and a correct, slow source");
  return [a, name] {
    if (!name.given()) a->name = "my_" + a->op;
    return make(*a);
  };
}

FK_VERB(new, "scaffold a candidate that compiles as it is", add_new);

}  // namespace
}  // namespace fk
