// SPDX-License-Identifier: Apache-2.0
// The exchange of one of several ranks: its engine takes requests and reports results here. All
// ranks must take the same requests at the same step, but requests arrive at different times. So
// the first rank decides, and the others follow. The first rank reports logits, tensors and shares.
// All ranks report tokens, so that the controller can compare them.
#pragma once
#include "core/comm/meeting.hpp"
#include "core/exec/model.hpp"

namespace fk {

class RankExchange final : public Exchange {
 public:
  // The controller gives all ranks the same requests in the same order. Both arguments outlive this
  // object.
  RankExchange(Exchange& own, Meeting& meeting) : own_(own), meeting_(meeting) {}

  bool next(Request& request, bool wait) override;
  void token(uint64_t id, int64_t index, int64_t token, bool last) override {
    own_.token(id, index, token, last);
  }
  void shared(uint64_t id, int64_t tokens) override {
    if (meeting_.rank() == 0) own_.shared(id, tokens);
  }
  void logits(uint64_t id, int64_t position, const float* values, int64_t count) override {
    if (meeting_.rank() == 0) own_.logits(id, position, values, count);
  }
  void tensor(uint64_t id, const std::string& name, const std::vector<int64_t>& shape,
              const float* values) override {
    if (meeting_.rank() == 0) own_.tensor(id, name, shape, values);
  }
  void failed(uint64_t id, const std::string& why) override { own_.failed(id, why); }
  void progress(const std::string& what) override { own_.progress(what); }

 private:
  Exchange& own_;
  Meeting& meeting_;
};

}  // namespace fk
