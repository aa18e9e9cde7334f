// SPDX-License-Identifier: Apache-2.0
// fk-host evolve MODEL: evolves the ops which the advice on a scenario names, one after another,
// and runs the scenario with all winners. Each part is a verb of its own in a process of its own.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/fields.hpp"
#include "core/report/document.hpp"

namespace fk {

// The run of one op, and its end.
struct OpEvolution {
  std::string op, folder, winner, why;
  std::optional<double> gain_at_limit;
  std::optional<double> gain, low, high;
  std::string status;
};
template <class Visitor>
void fields(Visitor& v, OpEvolution& o) {
  v("op", o.op, "the op");
  v("gain_at_limit", o.gain_at_limit,
    "speedup of the model's ops if this op reached its limit, by the advice; null: unknown");
  v("folder", o.folder, "its run of `fk-host evolve`");
  v("why", o.why, "why there is no winner; empty: there is one");
  v("winner", o.winner, "id of the winner");
  v("status", o.status, "status of the winner's last verdict, with new secrets");
  v("gain", o.gain, "of the winner over the first program; null: unknown");
  v("low", o.low, "lower end of its interval");
  v("high", o.high, "upper end");
}

struct ModelEvolution {
  static constexpr const char* kSchema = "fk-host.model_evolution/1";
  static constexpr const char* kTitle = "A run of `fk-host evolve MODEL`";
  std::string scenario, device, folder;
  std::vector<OpEvolution> ops;
  Json run;
  std::string why;
};
template <class Visitor>
void fields(Visitor& v, ModelEvolution& m) {
  v("scenario", m.scenario, "the scenario");
  v("device", m.device, "the device");
  v("folder", m.folder, "the folder of the run");
  v("ops", m.ops, "the evolved ops, in the order of the advice");
  v("run", m.run, "the document of `fk-host run` with all winners; null: there is none");
  v("why", m.why, "why there is none; empty: there is one");
}

struct ModelEvolutionOptions {
  std::string scenario, device;
  std::filesystem::path folder;
  int64_t ops = 3;
  std::vector<std::string> words;  // of each `evolve OP`, without --run, --device and --json
  bool tells = true;               // prints what happens
};

// Goes on where a killed run of the same folder was. Error when the advice fails.
ModelEvolution evolved_model(const ModelEvolutionOptions& options);
void print_model_evolution(const ModelEvolution& m);

}  // namespace fk
