// SPDX-License-Identifier: Apache-2.0
#include "core/cli/archive/evolve_model.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/archive/evolution.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/eval/advice.hpp"
#include "core/eval/job.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

class ModelEvolver {
 public:
  explicit ModelEvolver(const ModelEvolutionOptions& options) : o_(options) {
    fs::create_directories(o_.folder / "candidates");
  }

  ModelEvolution run() {
    ModelEvolution out;
    out.scenario = o_.scenario, out.device = o_.device, out.folder = o_.folder.string();
    std::vector<std::string> plugins;
    for (const AdviceRow& row : advised()) {
      if (static_cast<int64_t>(out.ops.size()) == o_.ops) break;
      out.ops.push_back(evolve(row, plugins));
    }
    out.why = plugins.empty() ? "no op has a winner" : "";
    if (plugins.empty()) return out;
    tell("running " + o_.scenario + " with " + std::to_string(plugins.size()) + " winners");
    std::vector<std::string> words = {"run", o_.scenario};
    for (const auto& plugin : plugins) words.push_back("--candidate=" + plugin);
    if (plugins.size() > 1) words.emplace_back("--together=winners");
    out.run = done(words, "run", out.why);
    return out;
  }

 private:
  void tell(const std::string& text) const {
    if (!o_.tells) return;
    print_report(text + "\n");
    std::fflush(stdout);
  }

  Json done(const std::vector<std::string>& words, const std::string& name, std::string& why) {
    EvalJob job;
    job.candidates = o_.folder / "candidates";
    job.words = words;
    const JobEnd end =
        run_job(job, o_.device, o_.folder / (name + ".part"), o_.folder / (name + ".log"));
    why = end.why;
    return end.document;
  }

  // The advice of the first start stays, so that a killed run goes on with the same ops.
  std::vector<AdviceRow> advised() {
    const fs::path file = o_.folder / "advice.json";
    std::error_code none;
    if (!fs::exists(file, none)) {
      tell("advice on " + o_.scenario);
      std::string why;
      const Json document = done({"advise", o_.scenario}, "advise", why);
      if (!why.empty()) fail("advise", why);
      write_file_atomic(file, document.dump(1) + "\n");
    }
    const auto advice = from_fields<Advice>(load_json(file), file.string(), {});
    std::vector<AdviceRow> out;
    for (const auto& row : advice.ops)
      if (row.gain || row.most_gain) out.push_back(row);
    if (out.empty()) fail("advise", "it names no op with a gain");
    return out;
  }

  OpEvolution evolve(const AdviceRow& row, std::vector<std::string>& plugins) {
    OpEvolution out;
    out.op = row.op;
    out.gain_at_limit = row.gain ? row.gain : row.most_gain;
    const fs::path folder = o_.folder / row.op;
    out.folder = folder.string();
    tell("evolving " + row.op);
    std::vector<std::string> words = {"evolve", row.op, "--run", folder.string()};
    words.insert(words.end(), o_.words.begin(), o_.words.end());
    const Json document = done(words, row.op, out.why);
    if (!out.why.empty()) return out;
    const auto found = from_fields<EvolutionDocument>(document, "evolve", {});
    const EvolutionStep* const best = best_step(found.steps);
    if (!best) {
      out.why = "no program is right";
      return out;
    }
    out.winner = found.winner;
    out.status = found.fresh ? found.fresh->status : best->verdict.status;
    if (found.gain)
      out.gain = found.gain->value, out.low = found.gain->low, out.high = found.gain->high;
    if (found.fresh && !found.fresh->right()) {
      out.why = "with new secrets it is " + found.fresh->status;
      return out;
    }
    plugins.push_back((step_folder(folder, best->number) / "out" / "out.so").string());
    return out;
  }

  const ModelEvolutionOptions& o_;
};

}  // namespace

ModelEvolution evolved_model(const ModelEvolutionOptions& options) {
  return ModelEvolver(options).run();
}

void print_model_evolution(const ModelEvolution& m) {
  std::string text = "\n";
  for (const auto& op : m.ops) {
    text += fmt::format("{:<24} ", op.op);
    if (!op.why.empty())
      text += "no winner: " + excerpt(op.why, 200);
    else if (op.gain && op.low && op.high)
      text += fmt::format("{}, {:.3g} ({:.3g}-{:.3g}) times the first program", op.status, *op.gain,
                          *op.low, *op.high);
    else
      text += op.status;
    text += "\n";
  }
  if (!m.why.empty()) text += "no run with winners: " + excerpt(m.why, 300) + "\n";
  const auto sides = m.run.find("candidates");
  if (m.run.is_object() && sides != m.run.end())
    for (const auto& side : *sides)
      text += fmt::format("{} with it: {} {}\n", m.scenario, side.value("verdict", std::string()),
                          excerpt(side.value("why", std::string()), 200));
  print_report(text + "all of it is in " + m.folder + "\n");
}

}  // namespace fk
