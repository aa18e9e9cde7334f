// SPDX-License-Identifier: Apache-2.0
#include "core/archive/evolution.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/archive/elites.hpp"
#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/json.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kAttemptsPerVerdict = 4;  // duplicates and silent agents end a run, too
constexpr int64_t kFailuresTold = 5;
constexpr int kHostFailuresMost = 3;

void write_json(const fs::path& file, const Json& json) {
  write_file_atomic(file, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::vector<ProgramFile> files_of(const EvolutionTools& tools, const fs::path& run,
                                  int64_t number) {
  return tools.sources(step_folder(run, number) / "out");
}

JudgedProgram program_of(const EvolutionStep& step, const EvolutionTools& tools) {
  JudgedProgram out;
  out.id = step.id;
  out.family = tools.family, out.kind = tools.kind;
  out.same_as = step.same_as;
  out.notes = step.notes;
  out.features = step.features;
  out.verdict = step.verdict;
  return out;
}

class EvolutionRun {
 public:
  EvolutionRun(const EvolutionOptions& options, const fs::path& folder, const EvolutionTools& tools)
      : options_(options), folder_(folder), tools_(tools) {}

  EvolutionDocument run() {
    begin();
    EvolutionDocument out;
    out.folder = folder_.string();
    out.options = options_;
    while (out.ended.empty()) {
      step();
      out.ended = why_ended();
    }
    if (const EvolutionStep* const best = best_step(steps_)) out.winner = best->id;
    out.steps = std::move(steps_);
    return out;
  }

 private:
  void begin() {
    std::error_code none;
    if (!fs::exists(folder_ / "run.json", none))
      write_json(folder_ / "run.json", to_fields(options_));
    const fs::path prior = folder_ / "prior.json";
    if (!fs::exists(prior, none)) write_json(prior, to_fields(tools_.prior()));
    read_fields(load_json(prior), prior_, prior.string());
    steps_ = steps_of_run(folder_);
    for (const auto& step : steps_) remember(step);
  }

  void remember(const EvolutionStep& step) {
    seconds_ += step.seconds;
    judged_ += step.judged();
    normals_.push_back(step.id.empty() ? "" : normal_hash(files_of(tools_, folder_, step.number)));
    if (step.judged()) programs_.push_back(program_of(step, tools_));
    const bool broken = step.judged() && step.verdict.status == name_of(Status::environment);
    host_failures_ = broken ? host_failures_ + 1 : 0;
  }

  std::string why_ended() const {
    if (host_failures_ >= kHostFailuresMost)
      fail_host("evolve",
                "the judge failed " + std::to_string(host_failures_) +
                    " times: " + steps_.back().verdict.why,
                "the run goes on with --run " + folder_.string());
    if (judged_ >= options_.verdicts) return std::to_string(judged_) + " verdicts";
    if (options_.minutes > 0 && seconds_ >= options_.minutes * 60) return "the time is over";
    const auto attempts = static_cast<int64_t>(steps_.size());
    if (attempts >= options_.verdicts * kAttemptsPerVerdict)
      return "the agent leaves no new programs";
    return {};
  }

  // Right programs of an island; of all islands if it has none.
  std::vector<JudgedProgram> population(int64_t island) const {
    std::vector<JudgedProgram> all, own;
    for (const auto& p : programs_) {
      if (!p.verdict.right()) continue;
      all.push_back(p);
      if (p.notes.island == island) own.push_back(p);
    }
    return own.empty() ? all : own;
  }

  // Steps of the parents. The choice depends on the earlier steps, the number and the seed alone.
  std::vector<const EvolutionStep*> parents(int64_t number, int64_t island,
                                            std::mt19937_64& random) const {
    const bool migrates = number % options_.migrate == 0 && options_.islands > 1;
    const std::vector<JudgedProgram> from =
        population(migrates ? (island + 1) % options_.islands : island);
    auto chosen = sampled(from, static_cast<size_t>(options_.parents), random);
    // One time in three, another one than the best is changed.
    if (!migrates && chosen.size() > 1 && random() % 3 == 0)
      std::swap(chosen[0], chosen[1 + random() % (chosen.size() - 1)]);
    std::vector<const EvolutionStep*> out;
    for (const JudgedProgram* p : chosen)
      out.push_back(&*std::ranges::find(steps_, p->id, &EvolutionStep::id));
    if (out.empty()) out.push_back(&steps_[0]);
    return out;
  }

  void write_archive(const fs::path& folder) const {
    std::vector<JudgedProgram> known = prior_;
    known.insert(known.end(), programs_.begin(), programs_.end());
    Json failures = Json::array(), best = Json::array();
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step)
      if (step->judged() && !step->verdict.right() &&
          static_cast<int64_t>(failures.size()) < kFailuresTold)
        failures.push_back(to_fields(*step));
    for (const JudgedProgram* p : elites_of(programs_)) best.push_back(to_fields(*p));
    Json out = {{"verdicts", judged_}, {"best", best}, {"failures", failures}};
    if (options_.memory)
      out["strategies"] = to_fields(strategies_of(known, tools_.family, tools_.kind));
    write_json(folder / "archive.json", out);
  }

  // Makes the folder of a step and asks the agent; or finds its answer.
  std::string answer(const fs::path& folder, EvolutionStep& step) {
    const fs::path answered = folder / "answered";
    std::error_code none;
    std::mt19937_64 random(static_cast<uint64_t>(options_.seed) * 1'000'003 +
                           static_cast<uint64_t>(step.number));
    std::vector<const EvolutionStep*> from;
    if (step.number > 1) from = parents(step.number, step.island, random);
    for (const EvolutionStep* parent : from) step.notes.parents.push_back(parent->id);
    if (fs::exists(answered, none)) return read_file(answered);
    fs::remove_all(folder);
    fs::create_directories(folder / "out");
    std::string why;
    if (step.number == 1) {
      for (const auto& file : tools_.first())
        write_file_atomic(folder / "out" / file.name, file.text);
    } else {
      StepTask task{options_.op,
                    options_.device,
                    options_.language,
                    tools_.file,
                    step.number,
                    static_cast<int64_t>(random() >> 1),
                    options_.verdicts - judged_,
                    step.notes.parents,
                    normals_};
      std::erase(task.known, "");
      std::vector<ProgramFile> first;
      for (size_t i = 0; i < from.size(); ++i) {
        const fs::path at = folder / "parents" / std::to_string(i + 1);
        const std::vector<ProgramFile> files = files_of(tools_, folder_, from[i]->number);
        for (const auto& file : files) write_file_atomic(at / file.name, file.text);
        write_json(at / "feedback.json", to_fields(*from[i]));
        if (i == 0) first = files;
      }
      write_json(folder / "task.json", to_fields(task));
      write_archive(folder);
      why = tools_.ask(folder, task, first);
    }
    write_file_atomic(answered, why);
    return why;
  }

  void step() {
    EvolutionStep step;
    const double start = now_seconds();
    step.number = static_cast<int64_t>(steps_.size()) + 1;
    step.island = step.number % options_.islands;
    const fs::path folder = step_folder(folder_, step.number);
    step.why = answer(folder, step);
    if (step.why.empty()) {
      try {
        judged(folder / "out", step);
      } catch (const HostError&) {
        throw;
      } catch (const Error& error) {
        step.why = error.what();
        step.reached = Reached::agent;
      }
    }
    step.seconds = tools_.seconds ? tools_.seconds(step.number) : now_seconds() - start;
    write_json(folder / "result.json", to_fields(step));
    remember(step);
    steps_.push_back(step);
    tools_.tell(step);
  }

  void judged(const fs::path& out, EvolutionStep& step) {
    ProgramNotes said = load_notes(out);
    said.parents = std::move(step.notes.parents);
    said.island = step.island;
    if (said.author.empty()) said.author = step.number == 1 ? "template" : options_.agent;
    step.notes = std::move(said);
    const std::vector<ProgramFile> files = tools_.sources(out);
    if (files.empty()) fail("agent", "it left no source in out/");
    step.id = program_id(options_.op, tools_.kind, files);
    const auto same = std::ranges::find(normals_, normal_hash(files));
    if (same != normals_.end()) {
      step.same_as = steps_[static_cast<size_t>(same - normals_.begin())].id;
      step.reached = Reached::duplicate;
      return;
    }
    write_json(out / kNotesFile, to_fields(step.notes));
    StepVerdict found = tools_.judge(out, step, files);
    step.reached = found.reached;
    step.verdict = std::move(found.verdict);
    step.features = std::move(found.features);
  }

  const EvolutionOptions& options_;
  const fs::path folder_;
  const EvolutionTools& tools_;
  std::vector<JudgedProgram> prior_, programs_;
  std::vector<EvolutionStep> steps_;
  std::vector<std::string> normals_;  // by step; empty: it has no program
  double seconds_ = 0;
  int64_t judged_ = 0;
  int host_failures_ = 0;
};

}  // namespace

EvolutionDocument evolved(const EvolutionOptions& options, const fs::path& folder,
                          const EvolutionTools& tools) {
  return EvolutionRun(options, folder, tools).run();
}

EvolutionOptions options_of_run(const fs::path& folder) {
  const fs::path file = folder / "run.json";
  std::error_code none;
  if (!fs::exists(file, none))
    fail(folder.string(), "is no run of `fk-host evolve`: it has no run.json");
  return from_fields<EvolutionOptions>(load_json(file), file.string(), {});
}

fs::path step_folder(const fs::path& run, int64_t number) {
  const std::string digits = std::to_string(number);
  return run / "steps" / (std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits);
}

std::vector<EvolutionStep> steps_of_run(const fs::path& run) {
  std::vector<EvolutionStep> out;
  for (int64_t number = 1;; ++number) {
    const fs::path file = step_folder(run, number) / "result.json";
    std::error_code none;
    if (!fs::exists(file, none)) return out;
    out.push_back(from_fields<EvolutionStep>(load_json(file), file.string(), {}));
  }
}

const EvolutionStep* best_step(const std::vector<EvolutionStep>& steps) {
  const EvolutionStep* out = nullptr;
  for (const auto& step : steps) {
    if (step.reached != Reached::full || !step.verdict.right()) continue;
    if (!out || step.verdict.low.value_or(0) > out->verdict.low.value_or(0)) out = &step;
  }
  return out;
}

std::string difference_of(const std::vector<EvolutionStep>& is,
                          const std::vector<EvolutionStep>& was) {
  for (size_t i = 0; i < std::min(is.size(), was.size()); ++i) {
    const Json a = to_fields(is[i]), b = to_fields(was[i]);
    for (const auto& [key, value] : b.items())
      if (a.at(key) != value)
        return "step " + std::to_string(i + 1) + ": `" + key + "` is " +
               excerpt(a.at(key).dump(), 200) + " and was " + excerpt(value.dump(), 200);
  }
  if (is.size() != was.size())
    return "it has " + std::to_string(is.size()) + " steps and had " + std::to_string(was.size());
  return {};
}

}  // namespace fk
