// SPDX-License-Identifier: Apache-2.0
#include "core/referee/rank_oracle.hpp"

#include <thread>

#include "core/comm/shared_comm.hpp"

namespace fk {

namespace {

// A reference that fails says so; nobody has to wait for long.
constexpr double kPatienceS = 60;

int64_t ranks_in(const ResolvedCase& resolved) {
  const Slot* comm = resolved.contract->comm();
  return comm ? resolved.axes.at(comm->axis) : 1;
}

}  // namespace

std::vector<CaseValues> contents_of_ranks(const ResolvedCase& resolved, uint64_t seed, int threads,
                                          Family family) {
  std::vector<CaseValues> out;
  ResolvedCase there = resolved;
  for (there.rank = 0; there.rank < ranks_in(resolved); ++there.rank)
    out.push_back(make_inputs(there, seed, threads, family));
  return out;
}

CaseValues reference_of_ranks(const Provider& reference, const ResolvedCase& resolved,
                              const Case& source, const Variant& variant,
                              const std::vector<CaseValues>& contents, const CheckOptions& options,
                              std::string& why) {
  if (!resolved.contract->comm())
    return reference_outputs(reference, resolved, source, variant, contents.at(0), options, why);
  const auto size = static_cast<int>(ranks_in(resolved));
  const auto block =
      std::make_shared<SharedMemory>(SharedMemory::anonymous(shared_comm_bytes(size)));
  std::vector<CaseValues> answers(contents.size());
  std::vector<std::string> whys(contents.size());
  const auto one = [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    SharedCommunicator comm(block, rank, size, kPatienceS);
    Variant own = variant;
    own.comm = comm.table();
    try {
      answers[at] =
          reference_outputs(reference, resolved, source, own, contents.at(at), options, whys[at]);
    } catch (const std::exception& e) {
      whys[at] = e.what();
    }
    if (!whys[at].empty()) comm.meeting().give_up(whys[at]);
  };
  std::vector<std::thread> threads;
  for (int r = 1; r < size; ++r) threads.emplace_back(one, r);
  one(0);
  for (auto& thread : threads) thread.join();
  for (const auto& text : whys)
    if (!text.empty() && why.empty()) why = text;
  return why.empty() ? std::move(answers.at(static_cast<size_t>(resolved.rank))) : CaseValues{};
}

}  // namespace fk
