// SPDX-License-Identifier: Apache-2.0
// What a model has to answer: the whole of it in float32, by providers that are trusted, with the
// very weights that others compute with.
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
    SessionSpec spec;  // the baselines'; its device is where the whole model has room
    Runner::Options runner;
    int64_t longest;  // tokens of the longest request that it will have to answer
    Progress progress;
    // Between as many ranks as the others are, on their devices: where one has no room for all.
    bool divided = false;
  };
  explicit ModelOracle(Setup setup);

  // Limits of its session where others have these.
  static Limits limits_of(Limits limits, int64_t longest, bool divided);

  // Errors are thrown.
  void make_weights();
  // After make_weights(); false with why().
  bool open();
  bool is_open() const { return side_ && side_->is_open(); }
  // Ends its process where less than so many bytes are free beside it on a device with memory of
  // its own: whether it did. The weights stay; open() starts another.
  bool leave_room(int64_t bytes = std::numeric_limits<int64_t>::max());
  // Ends its process. The weights stay.
  void rest() { side_.reset(); }
  // Gives back its memory and the weights. They can be made again, and are the same.
  void close();
  bool has_weights() const { return !weights_.empty(); }
  bool drive(const std::vector<Request>& requests, const RoundOptions& options, Round& round);
  const std::string& why() const { return side_->why(); }
  const SessionInfo& info() const { return side_->info(); }
  // Of the whole model, or of every rank; others may compute with them until close().
  const std::vector<WeightBlock>& weights() const { return weights_; }

 private:
  Setup setup_;
  std::vector<WeightBlock> weights_;
  std::unique_ptr<Side> side_;
};

}  // namespace fk
