// SPDX-License-Identifier: Apache-2.0
#include "core/cli/bench/archived.hpp"

#include <algorithm>

#include "core/archive/archive.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/author/recipe.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/language.hpp"
#include "core/contract/contract.hpp"
#include "core/report/verdict_text.hpp"
#include "core/store/store.hpp"

namespace fk {

namespace fs = std::filesystem;

std::vector<ProgramFile> sources_in(const fs::path& folder) {
  const auto all = languages();
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && is_source(entry.path(), all)) found.push_back(entry.path());
  std::ranges::sort(found);
  std::vector<ProgramFile> out;
  size_t bytes = 0;
  for (const auto& file : found) {
    out.push_back({file.lexically_relative(folder), read_file(file, kSourcesMost)});
    bytes += out.back().text.size();
    if (bytes > kSourcesMost)
      fail(folder.string(), "its sources have more than " + human_bytes(kSourcesMost));
  }
  return out;
}

std::string language_of_files(const std::vector<ProgramFile>& files) {
  static const std::vector<std::string> units = {".c", ".cpp", ".cu"};
  const auto all = languages();
  for (const auto& file : files) {
    const std::string extension = fs::path(file.name).extension();
    if (contains(units, extension)) return extension.substr(1);
    for (const auto& language : all)
      if (language.extension == extension &&
          (language.marker.empty() || file.text.find(language.marker) != std::string::npos))
        return language.name;
  }
  return {};
}

std::vector<JudgedProgram> programs_of(const Verdict& verdict, const std::string& device,
                                       const std::vector<ProgramFile>& files,
                                       const ProgramNotes& notes, const fs::path& plugin) {
  const Catalog catalog(paths::registry_dirs());
  std::vector<std::string> ops = ops_of(verdict);
  if (ops.empty()) {
    ops = ops_of_sources(files);
    std::erase_if(ops, [&](const std::string& op) { return !catalog.find(op); });
  }
  std::vector<JudgedProgram> out;
  for (const auto& op : ops) {
    JudgedProgram p;
    p.op = op;
    if (const Contract* const contract = catalog.find(op)) p.family = contract->family;
    p.kind = kind_of_device(device);
    p.language = language_of_files(files);
    p.name = verdict.candidate.name;
    p.files = files;
    p.notes = notes;
    if (!plugin.empty()) p.binary = binary_hash(plugin);
    p.features = features_of(verdict, op, p.kind, files);
    p.features.tag = notes.tag;
    p.verdict = feedback_of(verdict, op);
    out.push_back(std::move(p));
  }
  return out;
}

void archive_verdict(const fs::path& file, const std::string& device, fs::path folder,
                     const fs::path& plugin, const Verdict& verdict,
                     std::vector<std::string>& notes) {
  try {
    if (folder.empty()) folder = sources_of_build(plugin);
    if (folder.empty()) return;
    // The question is asked before a default file is looked for: a host without a store has none.
    if (file.empty() && !no_store().empty()) return;
    const ProgramNotes said = load_notes(folder);
    const std::vector<ProgramFile> files = sources_in(folder);
    const std::vector<JudgedProgram> programs = programs_of(verdict, device, files, said, plugin);
    if (programs.empty()) return;
    Archive archive(file.empty() ? Archive::default_file() : file);
    for (const auto& program : programs) archive.put(program);
  } catch (const Error& error) {
    if (!file.empty()) throw;
    notes.push_back("the verdict is not in the archive: " + std::string(error.what()));
  }
}

}  // namespace fk
