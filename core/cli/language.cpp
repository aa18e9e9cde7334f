// SPDX-License-Identifier: Apache-2.0
#include "core/cli/language.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/base/yaml.hpp"
#include "core/cli/author/recipe.hpp"

namespace fk {

namespace fs = std::filesystem;

std::vector<Language> languages() {
  std::vector<Language> out;
  for (const char* folder : {"plugin_api/adapters", "adapters"}) {  // the tree's, the installed
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(paths::home() / folder, none)) {
      const fs::path file = entry.path() / "language.yaml";
      if (!fs::is_regular_file(file, none)) continue;
      const Yaml root = Yaml::load(file);
      root.only({"extension", "marker", "device", "values", "compiler", "installation", "library"});
      out.push_back({entry.path().filename(), root.at("extension").text(), root.at("marker").text(),
                     entry.path(), root.text_or("device", "cuda") == "cuda",
                     root.text_or("values", "") != "untested", root.text_or("compiler", ""),
                     root.text_or("installation", ""), root.text_or("library", "")});
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Language& a, const Language& b) { return a.name < b.name; });
  return out;
}

std::optional<Language> language_of(const fs::path& file, const std::vector<Language>& all) {
  if (starts_with(file.filename().string(), "_")) return {};
  for (const auto& language : all)
    if (file.extension() == language.extension &&
        read_file(file).find(language.marker) != std::string::npos)
      return language;
  return {};
}

bool is_source(const fs::path& file, const std::vector<Language>& all) {
  static const std::set<std::string> kinds = {".c", ".cpp", ".cu", ".h", ".hpp", ".cuh", ".inc"};
  const auto has = [&](const Language& language) { return file.extension() == language.extension; };
  return file.filename() == Recipe::kFile || kinds.count(file.extension()) > 0 ||
         std::any_of(all.begin(), all.end(), has);
}

namespace {

// The folder of the language's compiler, which the scripts may read. A wrapper such as rustup's
// lies elsewhere, so the scripts get the compiler itself by its variable.
fs::path installation_of(const Language& language) {
  const std::string variable = upper(language.compiler);
  const std::string named = environment(variable.c_str(), language.compiler);
  std::vector<std::string> line = {named};
  for (const auto& word : split(language.installation, ' ')) line.push_back(word);
  Workshop asked;
  asked.seconds = 60;
  asked.confined = false;
  std::string said;
  if (const int status = run_compiler(line, asked, &said); status != 0)
    fail_host("--lang " + language.name,
              "`" + named + "` " + (status == 127 ? "cannot be started" : "does not answer"),
              "the language needs it: on the PATH, or named by " + variable);
  const fs::path folder = trim(said.substr(trim(said).rfind('\n') + 1));
  ::setenv(variable.c_str(), (folder / "bin" / language.compiler).c_str(), 1);
  return folder;
}

}  // namespace

int run_script(const Language& language, const std::string& script,
               const std::vector<std::string>& arguments, const Workshop& workshop,
               std::string* said) {
  Workshop own = workshop;
  own.runs_sources = true;
  if (!language.compiler.empty() && script == "build.py")
    own.programs.push_back(installation_of(language));
  std::vector<std::string> line = {environment("PYTHON", "python3"),
                                   (language.dir / script).string()};
  line.insert(line.end(), arguments.begin(), arguments.end());
  const int status = run_compiler(line, own, said);
  if (status == 127)
    fail("--lang " + language.name, "`" + line[0] + "` cannot be started",
         "the language's scripts need Python: on the PATH, or named by PYTHON");
  return status;
}

}  // namespace fk
