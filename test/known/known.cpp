// SPDX-License-Identifier: Apache-2.0
// known.cu for the CPU: silu_and_mul that computes KNOWN_LAUNCHES times. The first time uses the
// call's tensors. The others use equally large ones of its own with similar values. The judge makes
// all of them cold. So the way from plugins of known speed to figures can be tried without a GPU.
#include "known.hpp"

#include "fk/ops/silu_and_mul.h"

namespace {

constexpr int kLaunches = KNOWN_LAUNCHES;
constexpr int64_t kPage = 4096;

int64_t room(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

struct Known {
  using op = fk::silu_and_mul;
  static constexpr fk_claims claims = fk::cpu_claims;
  const int64_t width;
  char* own = nullptr;
  static int64_t part(const op::forward& args) {
    return room(args.x->nbytes) + room(args.out->nbytes);
  }
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    if (FK_DTYPE(max.x) != FK_BF16) throw fk::unsupported{"bfloat16 only"};
    need.persistent = (kLaunches - 1) * part(max);
  }
  Known(const fk_host&, const op::init& init, const op::weights&) : width(init.size) {}
  void prepare(const op::forward&, const fk_memory& memory) {
    own = static_cast<char*>(memory.persistent);
    if (own) known::values(reinterpret_cast<uint16_t*>(own), memory.persistent_bytes / 2);
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t rows = args.x->shape[0];
    const auto silu = [&](const void* from, void* to) {
      known::silu(static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to), rows, width);
    };
    silu(args.x->data, args.out->data);
    for (int k = 1; k < kLaunches; ++k) {
      char* const at = own + (k - 1) * part(args);
      silu(at, at + room(args.x->nbytes));
    }
  }
};
FK_OP(silu_and_mul, Known);

#define TEXT_OF(x) #x
#define NAME_OF(launches) "known_" TEXT_OF(launches)

}  // namespace
FK_PLUGIN(NAME_OF(KNOWN_LAUNCHES), "0");
