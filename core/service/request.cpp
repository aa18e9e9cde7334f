// SPDX-License-Identifier: Apache-2.0
#include "core/service/request.hpp"

#include <algorithm>
#include <boost/beast/core/detail/base64.hpp>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/fields.hpp"
#include "core/base/io.hpp"
#include "core/base/schema.hpp"
#include "core/base/text.hpp"
#include "core/store/key.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWhere = "job";
constexpr size_t kNameMost = 64, kWordsMost = 64, kWordMost = 128;

bool is_word(const std::string& text, std::string_view also) {
  return !text.empty() && std::ranges::all_of(text, [&](unsigned char c) {
    return std::isalnum(c) || also.find(static_cast<char>(c)) != also.npos;
  });
}

void need_words(const char* key, const std::vector<std::string>& words) {
  if (words.size() > kWordsMost)
    fail(std::string(kWhere) + "." + key, "has more than " + std::to_string(kWordsMost) + " words");
  for (const auto& word : words)
    if (word.size() > kWordMost || !is_word(word, "_-.:+=*"))
      fail(std::string(kWhere) + "." + key, "`" + excerpt(word) + "` is no name");
}

void need_range(const RequestLimit& limit, const Json& json) {
  const auto& [key, least, most] = limit;
  const auto found = json.find(key);
  if (found == json.end()) return;
  const bool fits =
      found->is_number() && found->get<double>() >= least && found->get<double>() <= most;
  if (!fits)
    fail(std::string(kWhere) + "." + key,
         "is no number from " + Json(least).dump() + " to " + Json(most).dump());
}

std::string plugin_bytes(const std::string& base64) {
  namespace codec = boost::beast::detail::base64;
  std::string out(codec::decoded_size(base64.size()), '\0');
  const auto [written, read] = codec::decode(out.data(), base64.data(), base64.size());
  out.resize(written);
  const size_t padding = base64.size() - std::min(base64.size(), base64.find_last_not_of('=') + 1);
  if (base64.size() % 4 != 0 || padding > 2 || read + padding < base64.size())
    fail("job.plugin", "is not base64", "encode the bytes of the .so with padding");
  return out;
}

}  // namespace

JobRequest job_request_from(const Json& json, const SourceLanguages& languages) {
  if (!json.is_object()) fail(kWhere, "is no object");
  JobRequest every;
  visitors::Describer keys;
  fields(keys, every);
  std::vector<std::string> known, names;
  for (const auto& [key, schema] : keys.properties.items()) known.push_back(key);
  for (const auto& [key, value] : json.items()) {
    if (!contains(known, key))
      fail(kWhere, "has no key `" + excerpt(key) + "`", did_you_mean(key, known));
    if (value.is_null()) fail(std::string(kWhere) + "." + key, "is null", "leave it out");
  }
  JobRequest out;
  read_fields(json, out, kWhere);
  if (out.name.size() > kNameMost || !is_word(out.name, "_-") || out.name[0] == '-')
    fail("job.name", "has letters, digits, _ and - only, at most " + std::to_string(kNameMost));
  if (json.contains("source") == json.contains("plugin"))
    fail(kWhere, "needs either a `source` or a `plugin`");
  if (out.source.empty() && out.plugin.empty())
    fail(json.contains("source") ? "job.source" : "job.plugin", "is empty");
  for (const auto& [name, extension] : languages) names.push_back(name);
  if (!out.source.empty() && !languages.contains(out.language))
    fail("job.language", "there is no language `" + excerpt(out.language) + "`",
         out.language.empty() ? join(names, ", ") : did_you_mean(out.language, names));
  for (const char* key : {"language", "recipe", "notes"})
    if (out.source.empty() && json.contains(key))
      fail(kWhere, std::string("`") + key + "` belongs to a `source`");
  if (json.contains("notes")) {
    if (canonical_text(json["notes"]).size() > kNotesMost)
      fail("job.notes", "has more than " + human_bytes(kNotesMost));
    out.notes = notes_from(json["notes"], "job.notes");
  }
  if (!out.plugin.empty()) plugin_bytes(out.plugin);
  need_words("ops", out.ops);
  need_words("cases", out.cases);
  need_words("families", out.families);
  need_words("variants", out.variants);
  need_words("dtypes", out.dtypes);
  const std::vector<std::string> sizes(std::begin(kRequestSizes), std::end(kRequestSizes));
  if (json.contains("size") && !contains(sizes, out.size))
    fail("job.size", "there is no size `" + excerpt(out.size) + "`", did_you_mean(out.size, sizes));
  for (const auto& limit : kRequestLimits) need_range(limit, json);
  return out;
}

std::string text_of(const JobRequest& request) { return canonical_text(to_fields(request)); }

std::vector<std::string> unpack(const JobRequest& r, const SourceLanguages& languages,
                                const fs::path& folder, const std::string& author) {
  const fs::path dir = folder / r.name;
  std::vector<std::string> words = {"bench"};
  if (r.plugin.empty()) {
    write_file_atomic(dir / (r.name + languages.at(r.language)), r.source);
    if (!r.recipe.empty()) write_file_atomic(dir / "candidate.yaml", r.recipe);
    ProgramNotes notes = r.notes.value_or(ProgramNotes{});
    if (notes.author.empty()) notes.author = author;
    if (r.notes || !author.empty())
      write_file_atomic(dir / kNotesFile, canonical_text(to_fields(notes)));
    words.push_back(dir.string());
  } else {
    const fs::path file = dir / (r.name + ".so");
    write_file_atomic(file, plugin_bytes(r.plugin), 0755);
    words.push_back(file.string());
  }
  // One word each: a value cannot become an option.
  const auto add = [&](const std::string& option, const std::string& value) {
    words.push_back(option + "=" + value);
  };
  const std::pair<const char*, const std::vector<std::string>*> lists[] = {
      {"--op", &r.ops},
      {"--case", &r.cases},
      {"--family", &r.families},
      {"--variant", &r.variants},
      {"--dtype", &r.dtypes}};
  for (const auto& [option, values] : lists)
    for (const auto& value : *values) add(option, value);
  if (!r.size.empty()) add("--size", r.size);
  if (r.seconds >= 0) add("--seconds", Json(r.seconds).dump());
  if (r.budget_s > 0) add("--budget", Json(r.budget_s).dump());
  if (r.patience_s > 0) add("--patience", Json(r.patience_s).dump());
  if (r.thorough) words.emplace_back("--thorough");
  return words;
}

}  // namespace fk
