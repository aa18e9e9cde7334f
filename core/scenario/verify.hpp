// SPDX-License-Identifier: Apache-2.0
// Is a model right? Its layers, outputs and greedy tokens against those of another implementation.
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
  std::string provider;  // empty: the ranked baselines; else a baseline or candidate
  bool whole = false;    // oracles take whole layers
  bool stress = false;   // mixed batches, small chunks, few pages
  Parallel parallel;     // how the model is divided between ranks
  int64_t decode = 0;    // also with so many tokens at the end of every row decoded one by one
  std::filesystem::path save;  // folder for what was computed, <case>.safetensors; empty: nowhere
  double patience_s = 120;
};

struct VerifyRow {
  std::string what;  // "hidden.0", "logits", "greedy", "decoded: logits", "stress: greedy"
  bool judged = true, ok = true;
  double rms = 0, worst = 0;  // errors as a share of the spread of the wanted values
  double limit = 0;           // for the worst in float32, for the rms otherwise
  std::string text;           // the pattern of an error, or the tokens
};

// Who runs an op in a phase.
struct VerifyOp {
  std::string phase, op, provider;
  bool operator<(const VerifyOp& o) const {
    return std::tie(phase, op, provider) < std::tie(o.phase, o.op, o.provider);
  }
};

struct VerifyReport {
  std::string name, folder, arch, device;
  std::string error;                   // why it could not be done; empty otherwise
  bool bad_input = false;              // the error is the folder's
  std::vector<std::string> notes;      // about the checkpoint
  std::vector<std::string> providers;  // that ran nodes
  std::set<VerifyOp> ops;
  Unusable unusable;  // baselines that could not be loaded
  std::vector<VerifyRow> rows;
  double seconds = 0;
  bool passed() const;
};

// Never throws for a bad folder or a failing provider: that is in the report.
VerifyReport verify_case(const std::filesystem::path& folder, const VerifyOptions& options,
                         const PluginSet& plugin_set, const Catalog& catalog);

// The largest error that passes: in float32 of any element, 1e-4 of the spread; in 16 bits of the
// root mean square. Rounding to nearest leaves a relative error of about epsilon / 4 (rms); each
// layer rounds the stream twice and what it adds several times, so errors grow with the square root
// of the layers; weights are rounded too. 4 epsilon sqrt(layers + 1) is 2.6 times the largest seen
// in the reference cases, and far below what a wrong mask or scale does (more than 0.1).
double verify_limit(DType dtype, int64_t layers);

}  // namespace fk
