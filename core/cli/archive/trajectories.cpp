// SPDX-License-Identifier: Apache-2.0
// fk-host trajectories export: training records from the archive, as JSON lines.
#include "core/archive/trajectories.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/archive/archive.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/contract/contract.hpp"
#include "core/contract/show.hpp"
#include "core/report/document.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

struct TrajectoriesArguments {
  std::string action, kind = "steps", op, split, output, archive;
  TrajectoryFilter filter;
};
FK_DOCUMENT(trajectory, Trajectory);
FK_DOCUMENT(training, TrainingPair);

template <class Record>
std::string lines_of_records(const std::vector<Record>& records, const std::string& split,
                             size_t& count) {
  std::string out;
  for (const auto& record : records) {
    const Json line = document(record);
    if (!split.empty() && line.at("split") != split) continue;
    out += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    ++count;
  }
  return out;
}

int trajectories(const TrajectoriesArguments& a) {
  need_known({a.action}, {"export"}, "trajectories", "action");
  need_known({a.kind}, {"steps", "supervised", "preferences", "rewards"}, "--kind", "kind");
  if (!a.split.empty()) need_known({a.split}, {"train", "validation", "test"}, "--split", "split");
  if (!a.output.empty()) need_writable(a.output);
  const fs::path file = a.archive.empty() ? Archive::default_file() : fs::path(a.archive);
  std::error_code none;
  if (!fs::exists(file, none))
    fail(file.string(), "there is no archive", "fk-host bench CANDIDATE makes one");
  const Catalog catalog(paths::registry_dirs());
  Archive archive(file);
  Archive::Search search;
  search.duplicates = true;
  if (!a.op.empty()) search.op = catalog.at(a.op).op;
  std::vector<JudgedProgram> programs = archive.list(search);
  std::ranges::stable_sort(programs, {}, &JudgedProgram::created);
  for (auto& p : programs) p = archive.program(p.id);
  const auto page = [&](const std::string& op) -> std::string {
    const Contract* const contract = catalog.find(op);
    PageParts parts;
    parts.cases = 4, parts.mirrors = false, parts.commands = false;
    return contract ? contract_page(*contract, parts) : "";
  };
  const std::vector<Trajectory> steps = trajectories_of(programs, page, a.filter);
  size_t count = 0;
  const std::string lines =
      a.kind == "steps"         ? lines_of_records(steps, a.split, count)
      : a.kind == "supervised"  ? lines_of_records(supervised_of(steps, a.filter), a.split, count)
      : a.kind == "preferences" ? lines_of_records(preferences_of(steps), a.split, count)
                                : lines_of_records(rewards_of(steps), a.split, count);
  if (a.output.empty()) {
    std::fputs(lines.c_str(), stdout);
    return kExitOk;
  }
  write_file_atomic(a.output, lines);
  std::printf("%s: %zu lines\n", a.output.c_str(), count);
  return kExitOk;
}

std::function<int()> add_trajectories(const Options& app) {
  auto a = std::make_shared<TrajectoriesArguments>();
  app.add_option("ACTION", a->action, "export").required();
  app.add_option("--kind", a->kind,
                 "steps (the default): all; supervised: high and certain gains of right programs; "
                 "preferences: pairs of siblings; rewards");
  app.add_option("--op", a->op, "only programs of this op");
  app.add_option("--split", a->split, "only train, validation or test");
  app.add_option("--min-gain", a->filter.gain, "of supervised, over the parent (1.1)").positive();
  app.add_option("--min-low", a->filter.low, "of supervised, the gain's lower end (1)")
      .non_negative();
  app.add_option("--license", a->filter.licenses, "only these, by SPDX name (may be repeated)")
      .one_at_a_time();
  app.add_option("--output", a->output, "a file; default: the standard output");
  app.add_option("--archive", a->archive, "as of `bench`");
  return [a] { return trajectories(*a); };
}

FK_VERB(trajectories, "training records of all judged programs", add_trajectories);

}  // namespace
}  // namespace fk
