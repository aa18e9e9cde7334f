// SPDX-License-Identifier: Apache-2.0
// A job as a client asks for it, and its form as files and words of `fk-host bench`.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/archive/program.hpp"
#include "core/base/json.hpp"

namespace fk {

struct JobRequest {
  std::string name = "candidate";
  std::string source, language, recipe, plugin;
  std::vector<std::string> ops, cases, families, variants, dtypes;
  std::string size;
  double seconds = -1, budget_s = 0, patience_s = 0;
  bool thorough = false;
  std::optional<ProgramNotes> notes;
};
template <class Visitor>
void fields(Visitor& v, JobRequest& r) {
  v.optional("name", r.name, true, "the plugin's name: letters, digits, _ and -");
  v.optional("source", r.source, !r.source.empty(), "the text of one source file");
  v.optional("language", r.language, !r.language.empty(), "the language of the source");
  v.optional("recipe", r.recipe, !r.recipe.empty(), "the text of candidate.yaml");
  v.optional("plugin", r.plugin, !r.plugin.empty(), "in place of a source, a .so file in base64");
  v.optional("ops", r.ops, !r.ops.empty(), "judge these ops only");
  v.optional("cases", r.cases, !r.cases.empty(), "judge these cases only");
  v.optional("families", r.families, !r.families.empty(), "judge these families of inputs only");
  v.optional("variants", r.variants, !r.variants.empty(), "judge these variants too");
  v.optional("dtypes", r.dtypes, !r.dtypes.empty(), "judge these dtypes too");
  v.optional("size", r.size, !r.size.empty(), "full (the default), ci, smoke or range");
  v.optional("seconds", r.seconds, r.seconds >= 0,
             "approximate seconds per case and provider; 0: correctness alone");
  v.optional("budget_s", r.budget_s, r.budget_s > 0, "seconds for the whole verdict");
  v.optional("patience_s", r.patience_s, r.patience_s > 0,
             "seconds without a sign of life before a candidate is stopped");
  v.optional("thorough", r.thorough, r.thorough, "all cases, and all timed");
  v.optional("notes", r.notes, r.notes.has_value(),
             "the author's words about a source, for the archive");
}

// Numbers of a request and their limits.
struct RequestLimit {
  const char* key;
  double least, most;
};
inline constexpr RequestLimit kRequestLimits[] = {
    {"seconds", 0, 60}, {"budget_s", 1, 3600}, {"patience_s", 1, 300}};
inline constexpr const char* kRequestSizes[] = {"full", "ci", "smoke", "range"};

// Languages of sources and the extensions of their files.
using SourceLanguages = std::map<std::string, std::string>;

// Error with the key and the nearest right word.
JobRequest job_request_from(const Json& json, const SourceLanguages& languages);
// Equal for equal requests: sorted keys, no blanks.
std::string text_of(const JobRequest& request);

// Writes the files below `folder` and returns the words of `fk-host` without --device and --json.
// `author`: of a source whose notes name none; empty: unknown.
std::vector<std::string> unpack(const JobRequest& request, const SourceLanguages& languages,
                                const std::filesystem::path& folder, const std::string& author);

}  // namespace fk
