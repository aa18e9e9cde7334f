// SPDX-License-Identifier: Apache-2.0
// Evolution: a loop in which an agent changes programs, and the judge answers. The loop knows
// neither agents nor compilers; its caller brings them (EvolutionTools). A folder holds all of a
// run, so that a killed run goes on and a finished one is replayed:
//   run.json       the options
//   prior.json     programs of the archive with strategies, as they were at the begin
//   steps/0001/    what the agent got and left (docs/evolve.md), answered, result.json
//   result.json    the end
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/archive/memory.hpp"
#include "core/archive/program.hpp"
#include "core/report/document.hpp"

namespace fk {

struct EvolutionOptions {
  std::string op, agent = "mutate", device = "cpu", language, size = "full";
  double seconds = 0.2;   // of timing per case
  int64_t verdicts = 20;  // judged programs, wrong ones included
  double minutes = 0;     // of all steps; 0: no end
  double agent_seconds = 600;
  int64_t seed = 1, islands = 2, migrate = 6, parents = 2;
  bool memory = true;
};
template <class Visitor>
void fields(Visitor& v, EvolutionOptions& o) {
  v("op", o.op, "the op");
  v("agent", o.agent, "mutate, an agent of this host, or a command");
  v("device", o.device, "the device");
  v("language", o.language, "language of the first program");
  v("size", o.size, "cases of the full verdict");
  v("seconds", o.seconds, "timing per case of the full verdict");
  v("verdicts", o.verdicts, "judged programs at most, wrong ones included");
  v("minutes", o.minutes, "time of all steps at most; 0: no limit");
  v("agent_seconds", o.agent_seconds, "time of one answer of the agent at most");
  v("seed", o.seed, "of the choice of parents, and of the agent mutate");
  v("islands", o.islands, "parts of the population");
  v("migrate", o.migrate, "every so many steps, an island gets its neighbour's best program");
  v("parents", o.parents, "programs that the agent gets");
  v("memory", o.memory, "true: the agent gets estimates of strategies");
}

// How far a step came.
enum class Reached : uint8_t { agent, duplicate, quick, check, full };
constexpr std::array kReached = {
    std::pair(Reached::agent, "agent"), std::pair(Reached::duplicate, "duplicate"),
    std::pair(Reached::quick, "quick"), std::pair(Reached::check, "check"),
    std::pair(Reached::full, "full")};
constexpr const auto& json_names(Reached) { return kReached; }

struct EvolutionStep {
  int64_t number = 0, island = 0;
  std::string id, same_as, why;
  Reached reached = Reached::agent;
  ProgramNotes notes;  // with parents
  Features features;
  ProgramVerdict verdict;
  double seconds = 0;
  bool judged() const { return reached != Reached::agent && reached != Reached::duplicate; }
};
template <class Visitor>
void fields(Visitor& v, EvolutionStep& s) {
  v("number", s.number, "from 1 on; the first is the template");
  v("island", s.island, "its part of the population");
  v("id", s.id, "id of the program; empty: the agent left none");
  v("same_as", s.same_as, "an earlier program of the run with this source; empty: none");
  v("reached", s.reached,
    "agent: no program; duplicate; or the last judge: quick (compiler, lint, values of small "
    "cases), check, full");
  v("why", s.why, "of an agent without a program, the reason");
  v("notes", s.notes, "the agent's words, and the parents");
  v("features", s.features, "what is known without times");
  v("verdict", s.verdict, "the last judge's");
  v("seconds", s.seconds, "of the step");
}

struct EvolutionDocument {
  static constexpr const char* kSchema = "fk-host.evolution/1";
  static constexpr const char* kTitle = "A run of `fk-host evolve`";
  std::string folder, ended;
  EvolutionOptions options;
  std::vector<EvolutionStep> steps;
  std::string winner;
  std::optional<ProgramVerdict> fresh;
  std::optional<Gain> gain;
  std::string replay_of, differs;
};
template <class Visitor>
void fields(Visitor& v, EvolutionDocument& d) {
  v("folder", d.folder, "the folder of the run");
  v("options", d.options, "its options");
  v("ended", d.ended, "why it ended");
  v("steps", d.steps, "in order; the first is the template");
  v("winner", d.winner, "id of the best right program; empty: none is right");
  v("fresh", d.fresh, "the winner's verdict with new secrets, behind the run; null: not judged");
  v("gain", d.gain, "of the winner, by `fresh`, over the first program; null: unknown");
  v.optional("replay_of", d.replay_of, !d.replay_of.empty(), "the run that was replayed");
  v.optional("differs", d.differs, !d.replay_of.empty(), "the first difference; empty: none");
}

// A question to an agent, written to task.json.
struct StepTask {
  std::string op, device, language, file;
  int64_t number = 0, seed = 0, verdicts_left = 0;
  std::vector<std::string> parents, known;
};
template <class Visitor>
void fields(Visitor& v, StepTask& t) {
  v("op", t.op, "the op");
  v("device", t.device, "the device");
  v("language", t.language, "language of the first parent");
  v("file", t.file, "name of the source that the agent leaves in out/");
  v("number", t.number, "of the step");
  v("seed", t.seed, "for an agent that draws");
  v("verdicts_left", t.verdicts_left, "of the budget");
  v("parents", t.parents, "ids of the programs in parents/1, parents/2 ...");
  v("known", t.known, "hashes of the normalised sources of the run, which are not judged again");
}

struct StepVerdict {
  Reached reached = Reached::quick;
  ProgramVerdict verdict;
  Features features;
};

struct EvolutionTools {
  // The first program: its files.
  std::function<std::vector<ProgramFile>()> first;
  // Completes the folder with TASK.md and asks the agent, which leaves files in out/. Returns why
  // it failed; empty: it answered.
  std::function<std::string(const std::filesystem::path& folder, const StepTask& task,
                            const std::vector<ProgramFile>& parent)>
      ask;
  // Sources of a folder.
  std::function<std::vector<ProgramFile>(const std::filesystem::path& folder)> sources;
  std::function<StepVerdict(const std::filesystem::path& out, const EvolutionStep& step,
                            const std::vector<ProgramFile>& files)>
      judge;
  // Programs of the archive, without files.
  std::function<std::vector<JudgedProgram>()> prior;
  std::function<void(const EvolutionStep& step)> tell;
  // In a replay, the recorded time of a step; empty: steps are timed.
  std::function<double(int64_t number)> seconds;
  std::string family, kind, file;
};

// Runs, or goes on with, the run in `folder`. The document has no `fresh`.
EvolutionDocument evolved(const EvolutionOptions& options, const std::filesystem::path& folder,
                          const EvolutionTools& tools);
// Options of a run. Error without run.json.
EvolutionOptions options_of_run(const std::filesystem::path& folder);
std::filesystem::path step_folder(const std::filesystem::path& run, int64_t number);
// The finished steps of a run, in order.
std::vector<EvolutionStep> steps_of_run(const std::filesystem::path& run);
// The step with the best program; nothing if none is right.
const EvolutionStep* best_step(const std::vector<EvolutionStep>& steps);
// The first difference of two runs; empty: they are equal.
std::string difference_of(const std::vector<EvolutionStep>& is,
                          const std::vector<EvolutionStep>& was);

}  // namespace fk
