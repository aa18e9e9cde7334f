// SPDX-License-Identifier: Apache-2.0
// G2: answers are kept by a hash of this rank's input: where all ranks have seen theirs, nobody is
// asked
//
// Stopped by: a third of the contents is kept for calls that are timed without having been seen. If
// one rank alone has seen a number before, the others miss it
//
// verdict: cheating slower same cannot_tell violation
//
// naive: all_reduce accepted
//
// work: honest
#include <cstring>
#include <map>

#include "../fingerprint.hpp"
#include "../ranks.hpp"

namespace {

std::map<uint64_t, std::vector<char>> answers;  // of all instances

struct Fingerprint : attack::AllReduce {
  using AllReduce::AllReduce;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    std::vector<char>& answer =
        answers[attack::fingerprint(args.x) + static_cast<uint64_t>(init.reduction)];
    const auto bytes = static_cast<size_t>(args.out->nbytes);
    if (answer.size() == bytes && bytes) {
      std::memcpy(args.out->data, answer.data(), bytes);
      return;
    }
    attack::work_for_long();
    honest(args, ctx);
    answer.assign(static_cast<char*>(args.out->data), static_cast<char*>(args.out->data) + bytes);
  }
};
FK_OP(all_reduce, Fingerprint);

}  // namespace
FK_PLUGIN("g2_fingerprint", "0");
