// SPDX-License-Identifier: Apache-2.0
#include "core/check/rank_oracle.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include "core/base/io.hpp"
#include "core/base/sha256.hpp"
#include "core/comm/one_device_comm.hpp"
#include "core/comm/shared_comm.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

// A failing reference reports its error, so waits stay short.
constexpr double kPatienceS = 60;
// For symmetric buffers. The CPU computes nothing larger. Counts as private memory.
constexpr size_t kHeap = size_t{64} << 20;

}  // namespace

int ranks_of_case(const ResolvedCase& resolved) {
  const Slot* comm = resolved.contract->comm();
  return comm ? static_cast<int>(resolved.axes.at(comm->axis)) : 1;
}

std::vector<CaseValues> contents_of_ranks(const ResolvedCase& resolved, uint64_t seed, int threads,
                                          Family family) {
  std::vector<CaseValues> out;
  ResolvedCase there = resolved;
  for (there.rank = 0; there.rank < ranks_of_case(resolved); ++there.rank)
    out.push_back(make_inputs(there, seed, threads, family));
  return out;
}

std::string not_in_common(Meeting& meeting, const ResolvedCase& resolved, const CaseValues& got) {
  std::string found;
  for (const CaseField* field : resolved.written()) {
    if (!field->slot->replicated) continue;
    uint64_t mine = 0;
    for (const Tensor& t : got.at(field->slot->name)) {
      const std::string_view bytes(static_cast<const char*>(t.data()),
                                   static_cast<size_t>(t.bytes()));
      mine = seed_of(sha256(bytes), mine);
    }
    if (meeting.first_says("compare", mine, meeting.patience()) != mine && found.empty())
      found = field->slot->name + " has other bits than on rank 0: it has to be the same on all";
  }
  return found;
}

CaseValues reference_of_ranks(const Provider& reference, const ResolvedCase& resolved,
                              const Case& source, const Variant& variant,
                              const std::vector<CaseValues>& contents, const CheckOptions& options,
                              std::string& why) {
  auto all = references_of_ranks(reference, resolved, source, variant, contents, options, why);
  return std::move(all.at(static_cast<size_t>(resolved.rank)));
}

std::vector<CaseValues> references_of_ranks(const Provider& reference, const ResolvedCase& resolved,
                                            const Case& source, const Variant& variant,
                                            const std::vector<CaseValues>& contents,
                                            const CheckOptions& options, std::string& why) {
  if (!resolved.contract->comm())
    return {reference_outputs(reference, resolved, source, variant, contents.at(0), options, why)};
  const auto size = ranks_of_case(resolved);
  const auto block =
      std::make_shared<SharedMemory>(SharedMemory::anonymous(shared_comm_bytes(size, kHeap)));
  std::vector<CaseValues> answers(contents.size());
  std::vector<std::string> whys(contents.size());
  // A device's oracle computes all ranks on that device, whatever devices the ranks have.
  const bool on_device = reference.op->claims->device_type != FK_CPU;
  std::optional<OneDevice> common;
  if (on_device) common.emplace(*options.device);
  // The ranks' threads share the budget of one.
  CheckOptions share = options;
  share.threads = std::max(1, options.threads / size);
  const auto one = [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    SharedCommunicator comm(block, rank, size, kPatienceS);
    std::optional<OneDeviceCommunicator> there;
    if (common) there.emplace(*common, comm);
    Variant own = variant;
    own.comm = there ? there->table() : comm.table();
    if (there) there->enter();
    try {
      answers[at] =
          reference_outputs(reference, resolved, source, own, contents.at(at), share, whys[at]);
    } catch (const std::exception& e) {
      whys[at] = e.what();
    }
    if (there) there->leave();
    if (!whys[at].empty()) comm.meeting().give_up(whys[at]);
  };
  {
    std::vector<std::jthread> threads;  // all are joined, even if one cannot start
    try {
      for (int r = 1; r < size; ++r) threads.emplace_back(one, r);
      one(0);
    } catch (const std::system_error& e) {
      whys[0] = std::string("a thread cannot be had: ") + e.what();
      fail_meeting(meeting_board(*block), whys[0]);
    }
  }
  for (const auto& text : whys)
    if (!text.empty() && why.empty()) why = text;
  if (!why.empty()) answers.assign(contents.size(), {});
  return answers;
}

}  // namespace fk
