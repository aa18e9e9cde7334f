// SPDX-License-Identifier: Apache-2.0
// Children of the host, whose failures are thrown with their words.
#pragma once
#include <stdexcept>

#include "fk/cpp/plugin.hpp"

namespace attack {

struct Children {
  const fk_host& host;

  fk_child* make(const fk_contract& contract, const void* init, const void* weights,
                 const void* max) const {
    fk_error error = none();
    fk_child* child = nullptr;
    told(host.child(&host, &contract, init, weights, max, &child, &error), error);
    return child;
  }
  void plan(fk_child* child, const void* frame) const {
    fk_error error = none();
    told(host.child_plan(child, frame, &error), error);
  }
  void run(fk_child* child, const void* frame, const fk_ctx& ctx) const {
    told(host.child_forward(child, frame, &ctx), *ctx.error);
  }

 private:
  static fk_error none() { return {FK_END(fk_error, text), 0, 0, 0, {}}; }
  static void told(int32_t status, const fk_error& error) {
    if (status != FK_OK) throw std::runtime_error(error.text);
  }
};

}  // namespace attack
