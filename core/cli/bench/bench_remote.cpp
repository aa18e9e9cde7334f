// SPDX-License-Identifier: Apache-2.0
#include "core/cli/bench/bench_remote.hpp"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/base64.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/cli/author/recipe.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/language.hpp"
#include "core/cli/terminal.hpp"
#include "core/cli/verb.hpp"
#include "core/judge/verdict/verdict.hpp"
#include "core/report/table.hpp"
#include "core/report/verdict_text.hpp"
#include "core/service/client.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

// The only source of a folder. Error for none and for several: a job has one.
fs::path only_source(const fs::path& folder) {
  fs::path out;
  const auto all = languages();
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!is_source(entry.path(), all) || entry.path().filename() == Recipe::kFile) continue;
    if (!out.empty())
      fail(folder.string(), "has several sources, and a job for a server has one",
           "compile here with `fk-host build`, and name the .so");
    out = entry.path();
  }
  if (out.empty()) fail(folder.string(), "has no source", "name the .so");
  return out;
}

std::string language_name(const fs::path& file) {
  if (const auto language = language_of(file, languages())) return language->name;
  if (file.extension() == ".c") return "c";
  if (file.extension() == ".cpp") return "cpp";
  if (file.extension() == ".cu") return "cuda";
  fail(file.string(), "is no source of a known language and no .so");
}

JobRequest remote_request(const BenchArguments& a) {
  JobRequest out;
  const std::string& word = a.what[0];
  std::error_code none;
  const bool is_file = fs::is_regular_file(word, none);
  if (is_file && ends_with(word, ".so")) {
    out.plugin = base64_of(read_file(word));
  } else {
    const fs::path file = is_file ? fs::path(word) : only_source(candidate_dir(word));
    out.source = read_file(file);
    out.language = language_name(file);
    const fs::path recipe = file.parent_path() / Recipe::kFile;
    if (fs::exists(recipe, none)) out.recipe = read_file(recipe);
    if (fs::exists(file.parent_path() / kNotesFile, none))
      out.notes = load_notes(file.parent_path());
  }
  out.name = is_file ? fs::path(word).stem().string() : candidate_dir(word).filename().string();
  out.ops = a.ops, out.cases = a.options.cases, out.families = a.families;
  out.variants = a.variants, out.dtypes = a.dtypes;
  out.size = a.options.size;
  out.seconds = a.options.seconds;
  out.budget_s = a.budget_s, out.patience_s = a.patience_s;
  out.thorough = a.thorough;
  return out;
}

}  // namespace

int bench_remote(const BenchArguments& a) {
  if (a.what.size() != 1)
    fail("--remote", "it takes one candidate", "a .so, a source, or the folder of one source");
  for (const bool given : {a.all, a.build, a.jobs > 1, a.profile, !a.sandbox, !a.secret.empty(),
                           !a.captured.empty(), !a.routing.empty(), !a.receipt.empty(),
                           !a.trace.empty(), a.fresh, a.no_store, !a.archive.empty()})
    if (given)
      fail("--remote",
           "--all, --build, --jobs, --profile, --no-sandbox, --secret, --recorded, --routing, "
           "--receipt, --trace, --fresh, --no-store and --archive are for this machine");
  const ServiceClient server(a.remote, environment("FK_TOKEN"));
  const Json document = server.judged(remote_request(a), [](const Json& job) {
    const int64_t place = job.value("place", int64_t{0});
    std::fprintf(stderr, "fk-host: job %s is %s%s\n",
                 printable(job.value("id", "")).substr(0, 12).c_str(),
                 printable(job.value("state", "")).c_str(),
                 place > 0 ? (", place " + std::to_string(place)).c_str() : "");
  });
  const Verdict verdict = verdict_from(document, "the server's verdict");
  if (a.json.given()) a.json.write(to_json(verdict));
  if (a.json.with_report())
    std::printf("%s", verdict_text(verdict, colour_wanted(stdout), a.verbose).c_str());
  return verdict.exit_code();
}

}  // namespace fk
