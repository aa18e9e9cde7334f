// SPDX-License-Identifier: Apache-2.0
// The index of a folder of recorded cases, capture.json. docs/record.md explains the keys.
#pragma once
#include <string>
#include <vector>

#include "core/exec/recording.hpp"

namespace fk {

inline constexpr const char* kCaptureIndex = "capture.json";

struct CaptureIndex {
  static constexpr const char* kSchema = "fk-host.capture/1";
  static constexpr const char* kTitle = "Calls that `fk-host record` kept as cases";
  struct Weights {
    bool random = true;
    std::string from;  // a checkpoint's folder; empty: they are random
  };
  struct Load {
    std::string name;
    int64_t requests = 0;
  };

  std::string scenario, arch, profile;
  int64_t tp = 1, ep = 1;
  bool overlap = false;
  std::string dtype, device;
  uint64_t seed = 0;
  Weights weights;
  bool values = false;  // floats were kept too
  std::vector<Load> workloads;
  std::vector<RecordedOp> ops;
  std::vector<std::string> files;  // names, without a folder
  int64_t bytes = 0;
  std::vector<LeftOutCalls> left_out;
  std::vector<RecordedCase> cases;
};

template <class Visitor>
void fields(Visitor& v, CaptureIndex::Weights& w) {
  v("random", w.random, "whether the weights are random");
  v.optional("from", w.from, !w.from.empty(), "name of the checkpoint's folder");
}
template <class Visitor>
void fields(Visitor& v, CaptureIndex::Load& l) {
  v("name", l.name, "the workload");
  v("requests", l.requests, "its requests that were run");
}
template <class Visitor>
void fields(Visitor& v, CaptureIndex& i) {
  v("scenario", i.scenario, "the scenario");
  v("arch", i.arch, "its model");
  v("profile", i.profile, "tiny or full");
  v("tp", i.tp, "ranks that divide layers");
  v("ep", i.ep, "ranks that divide experts");
  v("overlap", i.overlap, "whether communication ran beside computation");
  v("dtype", i.dtype, "dtype of weights and activations");
  v("device", i.device, "name of the device");
  v("seed", i.seed, "seed of weights and requests");
  v("weights", i.weights, "where the weights come from");
  v("values", i.values, "whether floats were kept too");
  v("workloads", i.workloads, "workloads that were run");
  v("ops", i.ops, "calls of each op in each phase");
  v("files", i.files, "files with the tensors");
  v("bytes", i.bytes, "bytes of all tensors");
  v("left_out", i.left_out, "calls that became no case");
  v("cases", i.cases, "the cases");
}

}  // namespace fk
