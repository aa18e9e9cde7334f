// SPDX-License-Identifier: Apache-2.0
// Requests of tensors alone. Their shapes are the model's own, so a workload gives their number.
#pragma once
#include "core/engines/load.hpp"

namespace fk {

class TensorLoad final : public Load {
 public:
  explicit TensorLoad(int64_t requests) : requests_(requests) {}
  int64_t requests() const override { return requests_; }
  Request request(const RequestForm& form, int64_t, uint64_t seed) const override {
    return form.random(0, seed);
  }

  static EngineKind kind() {
    return {{}, {}, [](const WorkloadKeys&, const LoadSize& size) -> std::shared_ptr<const Load> {
              return std::make_shared<TensorLoad>(size.requests);
            }};
  }

 private:
  int64_t requests_;
};

}  // namespace fk
