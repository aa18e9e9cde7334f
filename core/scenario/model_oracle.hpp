// SPDX-License-Identifier: Apache-2.0
// The right answers of a model: all of it in float32, by trusted providers, with the same weights
// as the other sides.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "core/engines/scenario.hpp"
#include "core/scenario/side.hpp"

namespace fk {

class ModelOracle {
 public:
  struct Setup {
    const Model& model;
    const Catalog& catalog;
    const Scenario& scenario;
    const PluginSet& plugin_set;
    SessionSpec spec;  // the baselines'; its device has memory for the whole model
    Runner::Options runner;
    int64_t longest;  // tokens of the longest request to answer
    Progress progress;
    // True: divided between the ranks of the other sides, on their devices, when no device has
    // memory for the whole model.
    bool divided = false;
  };
  explicit ModelOracle(Setup setup);

  // The oracle's limits for sides with `limits`.
  static Limits limits_of(Limits limits, int64_t longest, bool divided);

  // Throws errors.
  void make_weights();
  // Call after make_weights(). False with why().
  bool open();
  bool is_open() const { return side_ && side_->is_open(); }
  // Ends its process when the device's own memory has less than `bytes` free. True: the process has
  // ended. The weights stay; open() starts another process.
  bool leave_room(int64_t bytes = std::numeric_limits<int64_t>::max());
  // Ends its process. The weights stay.
  void rest() { side_.reset(); }
  // Frees its memory and the weights. They can be made again, with equal values.
  void close();
  bool has_weights() const { return !weights_.empty(); }
  bool drive(const std::vector<Request>& requests, const RoundOptions& options, Round& round);
  const std::string& why() const { return side_->why(); }
  const SessionInfo& info() const { return side_->info(); }
  // Weights of the whole model, or one block per rank. Other sides may use them until close().
  const std::vector<WeightBlock>& weights() const { return weights_; }

 private:
  Setup setup_;
  std::vector<WeightBlock> weights_;
  std::unique_ptr<Side> side_;
};

}  // namespace fk
