// SPDX-License-Identifier: Apache-2.0
// fk-host archive ACTION: programs that were judged. Each action is a function below.
#include "core/archive/archive.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/archive/archive_document.hpp"
#include "core/archive/difference.hpp"
#include "core/archive/elites.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/contract/contract.hpp"
#include "core/report/table.hpp"
#include "core/report/verdict_text.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

struct ArchiveArguments {
  std::string action, file, device = "cpu", output, author;
  std::vector<std::string> what;
  JsonOutput json;
  int64_t count = 10, seed = 0, keep = 100;
  double days = 7;
  bool duplicates = false, sources = false;
};
FK_DOCUMENT(archive, ArchiveDocument);
FK_DOCUMENT(program, ProgramDocument);

Archive opened(const ArchiveArguments& a) {
  const fs::path file = a.file.empty() ? Archive::default_file() : fs::path(a.file);
  std::error_code none;
  if (a.action != "import" && !fs::exists(file, none))
    fail(file.string(), "there is no archive", "fk-host bench CANDIDATE makes one");
  return Archive(file);
}

// The only word of an action.
std::string only_word(const ArchiveArguments& a, const char* noun) {
  if (a.what.size() != 1)
    fail("archive " + a.action, std::string("takes one ") + noun, "fk-host archive --help");
  return a.what[0];
}

Archive::Search search_of(const ArchiveArguments& a) {
  Archive::Search out;
  out.op = Catalog(paths::registry_dirs()).at(only_word(a, "op")).op;
  out.kind = kind_of_device(a.device);
  out.author = a.author;
  out.duplicates = a.duplicates;
  out.right = true;
  return out;
}

void add_files(Archive& archive, bool wanted, std::vector<JudgedProgram>& programs) {
  for (auto& p : programs) {
    if (wanted)
      p = archive.program(p.id);
    else
      p.files.clear();
  }
}

void best(Archive& archive, const ArchiveArguments& a, ArchiveDocument& out) {
  out.programs = archive.list(search_of(a));
  if (out.programs.size() > static_cast<size_t>(a.count))
    out.programs.resize(static_cast<size_t>(a.count));
  add_files(archive, a.sources, out.programs);
}

void sample(Archive& archive, const ArchiveArguments& a, ArchiveDocument& out) {
  const std::vector<JudgedProgram> all = archive.list(search_of(a));
  std::mt19937_64 random(static_cast<uint64_t>(a.seed));
  for (const JudgedProgram* p : sampled(all, static_cast<size_t>(a.count), random))
    out.programs.push_back(*p);
  add_files(archive, a.sources, out.programs);
}

void lineage(Archive& archive, const ArchiveArguments& a, ArchiveDocument& out) {
  out.programs = archive.lineage(only_word(a, "id"));
  add_files(archive, a.sources, out.programs);
}

void diff(Archive& archive, const ArchiveArguments& a, ArchiveDocument& out) {
  if (a.what.empty() || a.what.size() > 2)
    fail("archive diff", "takes one id, for its parent, or two", "fk-host archive diff PARENT ID");
  JudgedProgram to = archive.program(a.what.back());
  if (a.what.size() == 1 && to.notes.parents.empty())
    fail("archive diff", "`" + to.id.substr(0, 12) + "` has no parent", "name a second program");
  JudgedProgram from = archive.program(a.what.size() == 2 ? a.what[0] : to.notes.parents[0]);
  out.diff = program_diff(from.files, to.files);
  out.programs = {std::move(from), std::move(to)};
  add_files(archive, a.sources, out.programs);
}

void export_lines(Archive& archive, const ArchiveArguments& a, ArchiveDocument& out) {
  Archive::Search search;
  search.duplicates = true;
  if (!a.what.empty()) search.op = Catalog(paths::registry_dirs()).at(only_word(a, "op")).op;
  std::string lines;
  std::vector<JudgedProgram> all = archive.list(search);
  std::ranges::stable_sort(all, {}, &JudgedProgram::created);
  for (const auto& p : all) {
    const Json line = document(ProgramDocument{archive.program(p.id), archive.verdicts(p.id)});
    lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    ++out.changed;
  }
  if (a.output.empty()) fail("archive export", "needs a file", "--output programs.jsonl");
  write_file_atomic(a.output, lines);
}

void import_lines(Archive& archive, const ArchiveArguments& a, ArchiveDocument& out) {
  const std::string file = only_word(a, "file");
  const std::vector<std::string> lines = split(read_file(file), '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    if (trim(lines[i]).empty()) continue;
    const std::string place = file + ":" + std::to_string(i + 1);
    const Json line = parse_json(lines[i], place);
    if (!line.is_object() || line.value("schema", "") != ProgramDocument::kSchema)
      fail(place, "is no program",
           std::string("lines have the schema ") + ProgramDocument::kSchema);
    const auto one = from_fields<ProgramDocument>(line, place, {});
    if (one.program.id != program_id(one.program.op, one.program.kind, one.program.files))
      fail(place, "the id is not the hash of op, kind of device and sources");
    for (const auto& verdict : one.verdicts) {
      JudgedProgram p = one.program;
      p.verdict = verdict;
      out.changed += archive.put(p).fresh;
    }
  }
}

void prune(Archive& archive, const ArchiveArguments& a, ArchiveDocument& out) {
  if (!a.what.empty()) fail("archive prune", "takes no word", "--keep and --days");
  out.changed = archive.prune(a.keep, a.days);
}

void strategies(Archive& archive, const ArchiveArguments& a, ArchiveDocument& out) {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at(only_word(a, "op"));
  Archive::Search search;
  search.duplicates = true;
  out.strategies = strategies_of(archive.list(search), contract.family, kind_of_device(a.device));
}

std::string interval(const ProgramVerdict& v) {
  if (!v.speed) return "";
  return fmt::format("{:.3g} ({:.3g}-{:.3g})", *v.speed, v.low.value_or(0), v.high.value_or(0));
}

void print_archive(const ArchiveArguments& a, const ArchiveDocument& d) {
  const bool colour = colour_wanted(stdout);
  if (a.action == "diff") return print_report(d.diff);
  if (a.action == "strategies") {
    Table table({{"strategy"},
                 {"tries", Align::right},
                 {"right", Align::right},
                 {"faster", Align::right},
                 {"gain of a try (90 %)", Align::right}});
    for (const auto& s : d.strategies)
      table.row({excerpt(s.strategy, 80), std::to_string(s.tries), std::to_string(s.right),
                 std::to_string(s.faster),
                 fmt::format("{:.3f} ({:.3f}-{:.3f})", s.gain, s.low, s.high)});
    std::printf("%s", table.text(colour, 0).c_str());
    return;
  }
  if (a.action == "export" || a.action == "import" || a.action == "prune") {
    const std::map<std::string, const char*> words = {
        {"export", "written"}, {"import", "new"}, {"prune", "removed"}};
    print_report(std::to_string(d.changed) + " programs " + words.at(a.action) + "\n");
    return;
  }
  Table table({{"id"},
               {"op"},
               {"status"},
               {"x baseline (99 %)", Align::right},
               {"author"},
               {"strategy"},
               {"features"},
               {"parents"}});
  for (const auto& p : d.programs) {
    std::vector<std::string> parents;
    for (const auto& parent : p.notes.parents) parents.push_back(parent.substr(0, 12));
    table.row({p.id.substr(0, 12), p.op,
               Cell(p.verdict.status, p.verdict.right() ? Style::good : Style::bad),
               interval(p.verdict), excerpt(p.notes.author, 30), excerpt(p.notes.strategy, 60),
               excerpt(cell_of(p.features), 60), join(parents, " ")});
  }
  std::printf("%s", table.text(colour, 0).c_str());
  if (d.programs.empty()) std::printf("the archive has no such program\n");
}

int archive(ArchiveArguments& a) {
  a.json.open();
  static const std::map<std::string, void (*)(Archive&, const ArchiveArguments&, ArchiveDocument&)>
      actions = {{"best", best},   {"sample", sample},        {"lineage", lineage},
                 {"diff", diff},   {"export", export_lines},  {"import", import_lines},
                 {"prune", prune}, {"strategies", strategies}};
  std::vector<std::string> names;
  for (const auto& [name, action] : actions) names.push_back(name);
  need_known({a.action}, names, "archive", "action");
  if (!a.output.empty()) need_writable(a.output);
  Archive archive = opened(a);
  ArchiveDocument out;
  out.action = a.action;
  out.file = a.file.empty() ? Archive::default_file().string() : a.file;
  actions.at(a.action)(archive, a, out);
  if (a.json.given()) a.json.write(document(out));
  if (a.json.with_report()) print_archive(a, out);
  return kExitOk;
}

std::function<int()> add_archive(const Options& app) {
  auto a = std::make_shared<ArchiveArguments>();
  app.add_option("ACTION", a->action,
                 "best OP, sample OP (diverse ones), lineage ID, diff [ID] ID (without the first: "
                 "its parent), export [OP], import FILE, prune, or strategies OP")
      .required();
  app.add_option("WHAT", a->what, "an op, ids or their first digits, or a file");
  app.add_option("--archive", a->file, "its file; default: archive.sqlite beside the store");
  app.add_option("--device", a->device, "of best, sample, strategies: cpu (the default) or cuda");
  app.add_option("--author", a->author, "of best and sample, only this author's");
  app.add_option("--count", a->count, "of best and sample, so many at most (10)").positive();
  app.add_option("--seed", a->seed, "of sample; equal seeds give equal programs").non_negative();
  app.add_flag("--duplicates", a->duplicates, "also programs with the code of an earlier one");
  app.add_flag("--sources", a->sources, "with --json, the sources of the programs too");
  app.add_option("--output", a->output, "of export, the file of JSON lines");
  app.add_option("--keep", a->keep, "of prune, so many of each op and kind of device (100)")
      .non_negative();
  app.add_option("--days", a->days, "of prune, keeps programs younger than this (7)")
      .non_negative();
  a->json.declare(app);
  return [a] { return archive(*a); };
}

FK_VERB(archive, "judged programs: the best, diverse ones, their lineage", add_archive);

}  // namespace
}  // namespace fk
