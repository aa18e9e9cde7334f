// SPDX-License-Identifier: Apache-2.0
// D5: right and slow. It writes behind the outputs of other calls, and a neighbour would be blamed.
// So no baseline seems right and none is left for comparison
//
// Stopped by: the surroundings of all sets' tensors are looked at before anybody else is called
//
// verdict: illegal_access
//
// work: honest
//
// naive: -
#include "../attack.hpp"

#include <set>

namespace {

struct Elsewhere : attack::Silu {
  using Silu::Silu;
  static inline std::set<char*> ends;  // of the outputs of all instances
  char* end = nullptr;
  ~Elsewhere() { ends.erase(end); }
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    honest(args);
    end = static_cast<char*>(args.out->data) + args.out->nbytes;
    for (char* other : ends)
      if (other != end) std::memset(other, 0, 8);
    ends.insert(end);
  }
};
FK_OP(silu_and_mul, Elsewhere);

}  // namespace
FK_PLUGIN("d5_elsewhere", "0");
