// SPDX-License-Identifier: Apache-2.0
// An op's class of the reference without its registration, for attacks that are right but for one
// thing; FK_REFERENCE is its source.
#pragma once
#include "fk/cpp/plugin.hpp"

#pragma push_macro("FK_OP")
#undef FK_OP
#define FK_OP(OP, CLASS) static_assert(true)
#include FK_REFERENCE
#pragma pop_macro("FK_OP")

namespace attack {

// The same op with other values of init, or other weights, in some of its calls.
template <class Right>
struct Otherwise : Right {
  using op = typename Right::op;
  Otherwise(const fk_host& its, const typename op::init& i, const typename op::weights& w) : Right(its, i, w), host(its) {}

 protected:
  void as(const typename op::init& init, const typename op::weights& weights, const typename op::forward& args, const fk_ctx& ctx) const {
    Right(host, init, weights).forward(args, ctx);
  }

 private:
  const fk_host& host;
};

}  // namespace attack
