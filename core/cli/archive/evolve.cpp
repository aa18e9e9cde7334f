// SPDX-License-Identifier: Apache-2.0
// fk-host evolve OP: an agent changes programs, the judge answers (core/archive/evolution.hpp).
// With a scenario in place of the op: the ops that the advice names (evolve_model.hpp). Each judge
// is a verb of its own in a process of its own (core/eval/job.hpp).
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/archive/archive.hpp"
#include "core/archive/evolution.hpp"
#include "core/archive/mutate.hpp"
#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/check/check.hpp"
#include "core/cli/archive/agents.hpp"
#include "core/cli/archive/evolve_model.hpp"
#include "core/cli/author/scaffold.hpp"
#include "core/cli/author/task.hpp"
#include "core/cli/bench/archived.hpp"
#include "core/cli/language.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/contract/contract.hpp"
#include "core/device/rank_device.hpp"
#include "core/engines/scenario.hpp"
#include "core/eval/job.hpp"
#include "core/report/table.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

struct EvolveArguments {
  std::string op, folder, from, archive, replay;
  EvolutionOptions options;
  int64_t ops = 3;
  bool no_memory = false;
  JsonOutput json;
};
FK_DOCUMENT(evolution, EvolutionDocument);
FK_DOCUMENT(model_evolution, ModelEvolution);

class Evolver {
 public:
  Evolver(EvolveArguments& a, fs::path folder)
      : a_(a),
        folder_(std::move(folder)),
        catalog_(paths::registry_dirs()),
        contract_(catalog_.at(a.options.op)),
        kind_(kind_of_device(a.options.device)) {
    if (!a_.replay.empty()) recorded_ = steps_of_run(a_.replay);
    if (a_.options.agent != "mutate" && a_.replay.empty())
      command_ = agent_command(a_.options.agent);
  }

  EvolutionTools tools() {
    EvolutionTools out;
    out.family = contract_.family;
    out.kind = kind_;
    out.file = contract_.op + extension();
    out.first = [this] { return first(); };
    out.ask = [this](const fs::path& folder, const StepTask& task,
                     const std::vector<ProgramFile>& parent) { return ask(folder, task, parent); };
    out.sources = [](const fs::path& folder) { return sources_in(folder); };
    out.judge = [this](const fs::path& at, const EvolutionStep& step,
                       const std::vector<ProgramFile>& files) {
      return a_.replay.empty() ? judge(at, step, files) : recalled(step);
    };
    if (!a_.replay.empty())
      out.seconds = [this](int64_t number) {
        const auto place = static_cast<size_t>(number - 1);
        return place < recorded_.size() ? recorded_[place].seconds : 0;
      };
    out.prior = [this] { return prior(); };
    out.tell = [this](const EvolutionStep& step) { tell(step); };
    return out;
  }

  // The winner once more, with new secrets.
  ProgramVerdict fresh(const EvolutionStep& winner) {
    std::vector<std::string> words = full_words(step_folder(folder_, winner.number) / "out");
    words.emplace_back("--fresh");
    return feedback_of(verdict_of(words), contract_.op);
  }

 private:
  std::string extension() const {
    const std::string& name = a_.options.language;
    for (const auto& language : languages())
      if (language.name == name) return language.extension;
    return "." + name;
  }

  std::vector<ProgramFile> first() {
    if (!a_.replay.empty()) return sources_in(step_folder(a_.replay, 1) / "out");
    std::error_code none;
    if (!a_.from.empty()) {
      if (fs::is_directory(a_.from, none)) return sources_in(a_.from);
      const JudgedProgram found = Archive(archive_file()).program(a_.from);
      if (found.op != contract_.op)
        fail("--from", "the program is for " + found.op, "a program for " + contract_.op);
      return found.files;
    }
    const std::string plugin = "evolved_" + contract_.op;
    const std::string& language = a_.options.language;
    std::vector<ProgramFile> out;
    for (const auto& known : languages()) {
      if (known.name != language) continue;
      fs::create_directories(folder_ / "made");
      const Scaffold made = scaffold(contract_, plugin, known, folder_ / "made");
      fs::remove_all(folder_ / "made");
      if (made.complete) return {{contract_.op + known.extension, made.text}};
    }
    const Scaffold made = scaffold(contract_, plugin, language);
    if (made.complete) return {{contract_.op + "." + language, made.text}};
    if (language == "cpp" && kind_ == "cpu")
      for (auto& file : reference_scaffold(contract_.op, plugin))
        out.push_back({file.name, file.text});
    if (out.empty())
      fail("evolve", "there is no complete " + language + " template of " + contract_.op,
           "--from names a folder with a right program");
    return out;
  }

  std::string ask(const fs::path& folder, const StepTask& task,
                  const std::vector<ProgramFile>& parent) {
    if (!a_.replay.empty() && a_.options.agent != "mutate") {
      // An agent of another kind may answer differently: its recorded answer is replayed.
      const fs::path was = step_folder(a_.replay, task.number);
      for (const auto& file : sources_in(was / "out"))
        write_file_atomic(folder / "out" / file.name, file.text);
      std::error_code none;
      const fs::path notes = was / "out" / kNotesFile;
      if (fs::exists(notes, none)) fs::copy_file(notes, folder / "out" / kNotesFile);
      return read_file(was / "answered");
    }
    std::string source;
    for (const auto& file : parent)
      if (source.empty() && file.name != "candidate.yaml") source = file.text;
    write_file_atomic(folder / "TASK.md",
                      task_page(contract_, {"out", task.file, source,
                                            "It is the first parent. Leave your source in out/"}));
    if (a_.options.agent == "mutate") return mutate(folder, parent);
    return run_agent(command_, fs::absolute(folder), a_.options.agent_seconds);
  }

  fs::path archive_file() const {
    return a_.archive.empty() ? Archive::default_file() : fs::path(a_.archive);
  }

  std::vector<JudgedProgram> prior() {
    if (!a_.replay.empty()) {
      std::vector<JudgedProgram> out;
      const fs::path file = fs::path(a_.replay) / "prior.json";
      read_fields(load_json(file), out, file.string());
      return out;
    }
    if (!a_.options.memory) return {};
    Archive::Search search;
    search.kind = kind_;
    std::vector<JudgedProgram> out = Archive(archive_file()).list(search);
    std::erase_if(out, [&](const JudgedProgram& p) { return p.family != contract_.family; });
    return out;
  }

  // A verb in a process of its own.
  Json done(const std::vector<std::string>& words, std::string& why) {
    EvalJob job;
    job.candidates = folder_ / "candidates";
    job.words = words;
    const JobEnd end = run_job(job, a_.options.device, folder_ / "job.json", folder_ / "job.log");
    why = end.why;
    return end.document;
  }
  Verdict verdict_of(const std::vector<std::string>& words) {
    std::string why;
    const Json document = done(words, why);
    if (why.empty()) return verdict_from(document, "bench");
    Verdict none;
    none.status = Status::environment;
    none.why = "there is no verdict: " + why;
    return none;
  }
  std::vector<std::string> bench_words(const fs::path& folder) const {
    return {"bench", fs::absolute(folder).string(), "--op=" + contract_.op,
            "--archive=" + fs::absolute(archive_file()).string()};
  }
  std::vector<std::string> full_words(const fs::path& folder) const {
    auto words = bench_words(folder);
    words.push_back("--size=" + a_.options.size);
    words.push_back("--seconds=" + Json(a_.options.seconds).dump());
    return words;
  }

  // The cheap judges come first. One verdict has the compiler, lint and values of small cases. Then
  // come the rules of the ABI, and at last all values and times.
  StepVerdict judge(const fs::path& out, const EvolutionStep& step,
                    const std::vector<ProgramFile>& files) {
    StepVerdict found;
    const auto take = [&](const Verdict& verdict) {
      found.verdict = feedback_of(verdict, contract_.op);
      found.features = features_of(verdict, contract_.op, kind_, files);
      found.features.tag = step.notes.tag;
      return is_right(verdict.status);
    };
    auto words = bench_words(out);
    words.insert(words.end(), {"--size=smoke", "--seconds=0"});
    found.reached = Reached::quick;
    if (!take(verdict_of(words))) return found;
    found.reached = Reached::check;
    const fs::path plugin = fs::absolute(out) / (out.filename().string() + ".so");
    std::string why;
    const Json checked = done({"check", plugin.string(), "--op=" + contract_.op}, why);
    if (!why.empty() || !checked.value("passed", false)) {
      refuse(checked, why, found.verdict);
      record(files, step, plugin, found);
      return found;
    }
    found.reached = Reached::full;
    take(verdict_of(full_words(out)));
    return found;
  }

  // The verdict of a failed check: its first bad row.
  void refuse(const Json& checked, const std::string& why, ProgramVerdict& verdict) {
    verdict.receipt.clear();
    verdict.time = now_text();
    verdict.speed = verdict.low = verdict.high = std::nullopt;
    verdict.status = name_of(Status::environment);
    verdict.why = why;
    if (!why.empty()) return;
    verdict.status = name_of(Status::violation);
    verdict.why = "the check of the ABI's rules failed";
    for (const auto& row : checked.value("rows", Json::array())) {
      const std::string status = row.value("status", "");
      if (status != "wrong" && status != "violation") continue;
      verdict.status = status;
      verdict.why = excerpt(row.value("rule", "") + " " + row.value("text", ""), 500);
      verdict.evidence = "case " + excerpt(row.value("case", ""), 100) + ", variant " +
                         excerpt(row.value("variant", ""), 100);
      verdict.next = next_of_rule(row.value("rule", ""));
      return;
    }
  }

  void record(const std::vector<ProgramFile>& files, const EvolutionStep& step,
              const fs::path& plugin, const StepVerdict& found) {
    JudgedProgram p;
    p.op = contract_.op, p.family = contract_.family, p.kind = kind_;
    p.language = language_of_files(files);
    p.name = "evolved_" + contract_.op;
    p.files = files;
    p.notes = step.notes;
    p.binary = binary_hash(plugin);
    p.features = found.features;
    p.verdict = found.verdict;
    Archive(archive_file()).put(p);
  }

  StepVerdict recalled(const EvolutionStep& step) {
    for (const auto& was : recorded_)
      if (was.id == step.id && was.judged()) return {was.reached, was.verdict, was.features};
    fail_host("--replay", "step " + std::to_string(step.number) +
                              " has a program that the run has not: " + step.id.substr(0, 12));
  }

  void tell(const EvolutionStep& step) const {
    if (!a_.json.with_report()) return;
    std::string text = fmt::format("{:4}  ", step.number);
    if (step.reached == Reached::agent)
      text += "no program: " + excerpt(step.why, 200);
    else if (step.reached == Reached::duplicate)
      text += "the source of an earlier step";
    else
      text += step.verdict.status;
    if (step.verdict.speed && step.verdict.low && step.verdict.high)
      text += fmt::format(", {:.3g} ({:.3g}-{:.3g}) times the baseline", *step.verdict.speed,
                          *step.verdict.low, *step.verdict.high);
    if (!step.notes.strategy.empty()) text += ": " + excerpt(step.notes.strategy, 100);
    print_report(text + "\n");
    std::fflush(stdout);
  }

  EvolveArguments& a_;
  const fs::path folder_;
  const Catalog catalog_;
  const Contract& contract_;
  const std::string kind_;
  std::vector<std::string> command_;
  std::vector<EvolutionStep> recorded_;
};

std::string times(const ProgramVerdict& v) {
  if (!v.speed || !v.low || !v.high) return v.status;
  return fmt::format("{}, {:.3g} ({:.3g}-{:.3g}) times the baseline", v.status, *v.speed, *v.low,
                     *v.high);
}

void print_end(const EvolutionDocument& d) {
  const EvolutionStep* const best = best_step(d.steps);
  print_report(d.folder + ": ended after " + d.ended + "\n");
  if (!best) return print_report("no program is right\n");
  print_report("first    " + times(d.steps[0].verdict) + "\n");
  print_report("winner   step " + std::to_string(best->number) + ", " + times(best->verdict) +
               "\n");
  if (d.fresh) print_report("afresh   " + times(*d.fresh) + ", with new secrets\n");
  if (d.gain)
    print_report(fmt::format("gain     {:.3g} ({:.3g}-{:.3g}) times the first program\n",
                             d.gain->value, d.gain->low, d.gain->high));
  print_report("source   " + (fs::path(d.folder) / "winner").string() + "\n");
}

// A name that no earlier run has.
fs::path new_run(const std::string& op) {
  std::string time = now_text();
  std::erase_if(time, [](char c) { return c == ':' || c == '-'; });
  const fs::path root = paths::data_dir() / "evolutions";
  std::error_code none;
  for (int i = 1;; ++i) {
    const fs::path out = root / (op + "-" + time + (i > 1 ? "-" + std::to_string(i) : ""));
    if (!fs::exists(out, none)) return out;
  }
}

void write_winner(const EvolutionDocument& d) {
  const fs::path to = fs::path(d.folder) / "winner";
  fs::remove_all(to);
  const EvolutionStep* const best = best_step(d.steps);
  if (!best) return;
  const fs::path from = step_folder(d.folder, best->number) / "out";
  for (const auto& file : sources_in(from)) write_file_atomic(to / file.name, file.text);
  fs::copy_file(from / kNotesFile, to / kNotesFile, fs::copy_options::overwrite_existing);
}

// True for the name or file of a scenario, where no op has this name.
bool is_scenario(const std::string& word) {
  return !word.empty() && !Catalog(paths::registry_dirs()).find(word) &&
         (fs::is_regular_file(word) || contains(scenario_names(), word));
}

// The options of each op's run as words. A run that goes on takes its own options.
int evolve_scenario(const EvolveArguments& a) {
  for (const bool given : {!a.from.empty(), !a.replay.empty()})
    if (given) fail("evolve", "--from and --replay are for one op", "name the op");
  const EvolutionOptions& o = a.options;
  ModelEvolutionOptions model;
  model.scenario = a.op, model.device = o.device, model.ops = a.ops;
  model.folder =
      fs::absolute(a.folder.empty() ? new_run(fs::path(a.op).stem()) : fs::path(a.folder));
  model.tells = a.json.with_report();
  const std::pair<const char*, std::string> texts[] = {
      {"--agent", o.agent}, {"--lang", o.language}, {"--size", o.size}, {"--archive", a.archive}};
  for (const auto& [name, value] : texts)
    if (!value.empty()) model.words.push_back(name + ("=" + value));
  const std::pair<const char*, double> numbers[] = {
      {"--minutes", o.minutes}, {"--agent-seconds", o.agent_seconds}, {"--seconds", o.seconds}};
  for (const auto& [name, value] : numbers)
    model.words.push_back(name + ("=" + Json(value).dump()));
  const std::pair<const char*, int64_t> counts[] = {
      {"--verdicts", o.verdicts}, {"--seed", o.seed},       {"--islands", o.islands},
      {"--migrate", o.migrate},   {"--parents", o.parents},
  };
  for (const auto& [name, value] : counts)
    model.words.push_back(name + ("=" + std::to_string(value)));
  if (a.no_memory) model.words.emplace_back("--no-memory");
  if (model.tells) print_report("run in " + model.folder.string() + "\n");
  const ModelEvolution out = evolved_model(model);
  if (a.json.given()) a.json.write(document(out));
  if (model.tells) print_model_evolution(out);
  return out.why.empty() ? kExitOk : kExitFailed;
}

int evolve(EvolveArguments& a) {
  a.json.open();
  std::error_code none;
  if (is_scenario(a.op)) return evolve_scenario(a);
  const bool goes_on = !a.folder.empty() && fs::exists(fs::path(a.folder) / "run.json", none);
  if (!a.replay.empty()) {
    if (goes_on) fail("--run", "`" + a.folder + "` has a run already", "a new folder");
    a.options = options_of_run(a.replay);
  } else if (goes_on) {
    const EvolutionOptions kept = options_of_run(a.folder);
    if (!a.op.empty() && a.op != kept.op)
      fail("--run", "the run is about " + kept.op, "leave out the op, or name another folder");
    a.options = kept;
  } else {
    if (a.op.empty()) fail("evolve", "it needs an op", "or --run FOLDER of an earlier run");
    a.options.op = Catalog(paths::registry_dirs()).at(a.op).op;
    a.options.memory = !a.no_memory;
    check_device_name(a.options.device);
    need_size(a.options.size);
    if (a.options.language.empty())
      a.options.language = kind_of_device(a.options.device) == "cpu" ? "cpp" : "cu";
  }
  const fs::path folder = a.folder.empty() ? new_run(a.options.op) : fs::path(a.folder);
  Evolver evolver(a, folder);
  const EvolutionTools tools = evolver.tools();
  fs::create_directories(folder / "candidates", none);
  if (a.json.with_report())
    print_report((goes_on ? "going on in " : "run in ") + folder.string() + "\n");
  EvolutionDocument out = evolved(a.options, folder, tools);
  write_winner(out);
  if (!a.replay.empty()) {
    out.replay_of = a.replay;
    out.differs = difference_of(out.steps, steps_of_run(a.replay));
  } else if (const EvolutionStep* const best = best_step(out.steps)) {
    const fs::path afresh = folder / "fresh.json";
    if (!fs::exists(afresh, none))
      write_file_atomic(afresh, to_fields(evolver.fresh(*best)).dump(1) + "\n");
    out.fresh = from_fields<ProgramVerdict>(load_json(afresh), afresh.string(), {});
    out.gain = gain_over(*out.fresh, out.steps[0].verdict);
  }
  const Json result = document(out);
  write_file_atomic(folder / "result.json",
                    result.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  if (a.json.given()) a.json.write(result);
  if (a.json.with_report()) print_end(out);
  if (!a.replay.empty()) {
    if (a.json.with_report())
      print_report(out.differs.empty() ? "replayed: all steps are as they were\n"
                                       : "not as it was: " + out.differs + "\n");
    return out.differs.empty() ? kExitOk : kExitFailed;
  }
  return best_step(out.steps) ? kExitOk : kExitFailed;
}

std::function<int()> add_evolve(const Options& app) {
  auto a = std::make_shared<EvolveArguments>();
  EvolutionOptions& o = a->options;
  app.add_option("OP", a->op, "the op; or a scenario, for the ops with the largest gains in it");
  app.add_option("--ops", a->ops, "of a scenario, so many ops at most (3)").range(1, 64);
  app.add_option(
      "--agent", o.agent,
      "mutate (the default), openai, or a command; it gets a folder and leaves a source");
  app.add_option("--verdicts", o.verdicts, "programs that are judged (20), wrong ones included")
      .positive();
  app.add_option("--minutes", o.minutes, "time of all steps; 0: no limit").non_negative();
  app.add_option("--agent-seconds", o.agent_seconds, "time of one answer of the agent (600)")
      .positive();
  app.add_option("--device", o.device, "cpu (the default) or cuda:0");
  app.add_option("--lang", o.language,
                 "of the template: cpp (for a CPU), cu (for a GPU), triton ...");
  app.add_option("--from", a->from, "begin with this folder or program of the archive");
  app.add_option("--size", o.size, "cases of the full verdict: full (the default), ci or smoke");
  app.add_option("--seconds", o.seconds, "timing per case of the full verdict (0.2)").positive();
  app.add_option("--seed", o.seed, "of the choice of parents").non_negative();
  app.add_option("--islands", o.islands, "parts of the population (2)").range(1, 64);
  app.add_option("--migrate", o.migrate, "steps between two exchanges of islands (6)").positive();
  app.add_option("--parents", o.parents, "programs that the agent gets (2)").range(1, 16);
  app.add_flag("--no-memory", a->no_memory, "the agent gets no estimates of strategies");
  app.add_option("--run", a->folder,
                 "folder of the run; one that a killed process left goes on. Default: a new one in "
                 "the data folder");
  app.add_option("--replay", a->replay,
                 "take the verdicts of this run, and compare all steps with it");
  app.add_option("--archive", a->archive, "as of `bench`");
  a->json.declare(app);
  return [a] { return evolve(*a); };
}

FK_VERB(evolve, "let an agent improve a kernel: it writes, the judge answers", add_evolve);

}  // namespace
}  // namespace fk
