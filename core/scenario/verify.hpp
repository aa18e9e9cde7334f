// SPDX-License-Identifier: Apache-2.0
// Compares a model's layers, outputs and greedy tokens with another implementation's.
#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/check/plugin_set.hpp"
#include "core/exec/model.hpp"
#include "core/tensor/dtype.hpp"

namespace fk {

struct VerifyOptions {
  std::string device = "cpu";
  DType dtype = DType::f32;
  std::string provider;        // empty: the ranked baselines; else a baseline or candidate
  bool whole = false;          // oracles take whole layers
  bool stress = false;         // mixed batches, small chunks, few pages
  Parallel parallel;           // division of the model between ranks
  int64_t decode = 0;          // tokens at the end of each row to decode one by one, in another run
  std::filesystem::path save;  // folder for the results, <case>.safetensors; empty: none
  double patience_s = 120;
};

struct VerifyRow {
  std::string what;  // "hidden.0", "logits", "greedy", "decoded: logits", "stress: greedy"
  bool judged = true, ok = true;
  double rms = 0, worst = 0;  // errors as a share of the spread of the wanted values
  double limit = 0;           // for the worst in float32, else for the rms
  std::string text;           // pattern of the error, or the tokens
};

// The provider of an op in a phase.
struct VerifyOp {
  std::string phase, op, provider;
  bool operator<(const VerifyOp& o) const {
    return std::tie(phase, op, provider) < std::tie(o.phase, o.op, o.provider);
  }
};

struct VerifyReport {
  std::string name, folder, arch, device;
  std::string error;                   // why the comparison was impossible; empty: it was done
  bool bad_input = false;              // the folder is at fault
  std::vector<std::string> notes;      // about the checkpoint
  std::vector<std::string> providers;  // with at least one node
  std::set<VerifyOp> ops;
  Unusable unusable;  // baselines that did not load
  std::vector<VerifyRow> rows;
  double seconds = 0;
  bool passed() const;
};

// Throws for neither a bad folder nor a failing provider; the report has the error.
VerifyReport verify_case(const std::filesystem::path& folder, const VerifyOptions& options,
                         const PluginSet& plugin_set, const Catalog& catalog);

// The largest error that passes, as a share of the spread. In float32 it is 1e-4 for each element;
// in 16 bits it limits the root mean square. Rounding to nearest has a relative error of about
// epsilon / 4 (rms). Each layer rounds the stream twice, and its additions several times, so errors
// grow with the square root of the layers. Weights are rounded too. The limit 4 epsilon sqrt(layers
// + 1) is 2.6 times the largest error in the reference cases. A wrong mask or scale has more than
// 0.1.
double verify_limit(DType dtype, int64_t layers);

}  // namespace fk
