// SPDX-License-Identifier: Apache-2.0
// D5: right, though not bit for bit the same each time. It writes a byte into poisoned outputs of
// future calls, so these are wrong when they are looked at
//
// Stopped by: one more set of buffers gets contents and no call, and nothing may be written there
//
// verdict: illegal_access
//
// work: honest
//
// naive: -
#include "../attack.hpp"

#include <map>

namespace {

struct Beside : attack::Silu {
  using Silu::Silu;
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 0, 0, FK_ACCUMULATE_F32, 0, 0, nullptr};
  static inline std::map<char*, int64_t> outputs;  // of all instances, with their bytes
  static inline unsigned turn = 0;
  char* mine = nullptr;
  ~Beside() { outputs.erase(mine); }
  static bool to_come(const char* out, int64_t bytes) {
    const unsigned char ones[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    return bytes >= 8 && std::memcmp(out, ones, 8) == 0;
  }
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    mine = static_cast<char*>(args.out->data);
    outputs[mine] = args.out->nbytes;
    // The last bit of one number, which rounding explains.
    if (++turn % 2 && args.out->nbytes) mine[0] = static_cast<char>(mine[0] ^ 1);
    for (const auto& [out, bytes] : outputs)
      if (out != mine && to_come(out, bytes)) out[bytes - 1] = 0;
  }
};
FK_OP(silu_and_mul, Beside);

}  // namespace
FK_PLUGIN("d5_beside", "0");
