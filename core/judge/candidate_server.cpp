// SPDX-License-Identifier: Apache-2.0
#include "core/judge/candidate_server.hpp"

#include <unistd.h>

#include "core/base/clock.hpp"
#include "core/base/cores.hpp"
#include "core/base/error.hpp"
#include "core/judge/plan/hidden_cases.hpp"
#include "core/judge/warm_call.hpp"
#include "core/worker/own_memory.hpp"

namespace fk {

namespace {

// Passes of the flush before calls. Its time covers the launch of a graph; ranks launch one per
// call.
constexpr int kPasses = 2, kPassesOfRanks = 8;
// Device bytes that one allocation uses, guards included.
int64_t taken_by(int64_t bytes) {
  constexpr int64_t kPage = int64_t{2} << 20, kGuards = 8 << 10;
  return (bytes + kGuards + kPage - 1) / kPage * kPage;
}
const std::string kCapture = "capture: ";  // the controller knows this reason by its prefix

// Frames of the case as written: an instance is made for it and called with fewer rows, as in a
// model. Null when the case has no smaller shape. A recorded bound is tighter than the contract's,
// and may not hold for fewer rows.
std::unique_ptr<CaseFrames> larger_than(Device& device, const ResolvedCase& resolved,
                                        const PosedCase& posed) {
  Variant written = posed.variant;
  if (written.axes.empty() && written.listed.empty()) return nullptr;
  written.axes.clear();
  written.listed.clear();
  const ResolvedCase all = resolve(*resolved.contract, posed.source, written);
  for (const auto& slot : resolved.contract->section(SectionId::forward)) {
    const auto at = static_cast<size_t>(slot.index);
    if (slot.kind == SlotKind::integer && resolved.scalars[at].i > all.scalars[at].i)
      return nullptr;
  }
  return std::make_unique<CaseFrames>(device, all, case_layout(posed.variant, 0),
                                      CaseFrames::Sizes{});
}

// Throws Error with a refusal, or with the broken rule.
Support support_of(const Provider& provider, const Frames& meta) {
  Support support = Instance::supports(provider, meta);
  if (!support.changed.empty()) fail(provider.plugin, "state: " + support.why);
  if (!support.ok) fail(provider.plugin, "refused: " + support.why);
  return support;
}

}  // namespace

void need_support(const Provider& provider, Device& device, const AskedCase& asked,
                  Communicator* comm) {
  PosedCase posed = pose(asked, *provider.contract, nullptr);
  if (is_hidden(asked.variant)) {  // the instance is made for the whole case
    posed.variant.axes.clear();
    posed.variant.listed.clear();
  }
  if (comm) posed.variant.comm = comm->table();
  const CaseFrames frames(device, resolve(*provider.contract, posed.source, posed.variant),
                          case_layout(posed.variant, 0), CaseFrames::Sizes{});
  support_of(provider, frames.meta());
}

CandidateServer::CandidateServer(const Provider& provider, const Plugins& plugins, Device& device,
                                 Stopwatch& watch, const CaseRunShape& shape, int read_fd,
                                 int written_fd, int threads, Communicator* comm)
    : provider_(provider),
      device_(device),
      comm_(comm),
      watch_(watch),
      guarded_(device, 0, threads),
      children_(plugins, provider) {
  watch_.fix_passes(comm_ ? kPassesOfRanks : kPasses);
  const Contract& contract = *provider.contract;
  PosedCase posed = pose(shape.asked, contract, nullptr);
  if (comm_) posed.variant.comm = comm_->table();
  const ResolvedCase resolved = resolve(contract, posed.source, posed.variant);
  const auto map = [&](int fd, int64_t bytes, Device::Sharing mine) {
    void* const at = device.open_shared(fd, bytes, mine);
    ::close(fd);
    return SharedMapping(device, {at, -1}, bytes);
  };
  read_ = map(read_fd, shape.read_bytes, Device::Sharing::read);
  written_ = map(written_fd, shape.written_bytes, Device::Sharing::write);
  SharedPlaces places{{read_.data(), shape.read_bytes}, {written_.data(), shape.written_bytes}};
  for (int i = 0; i < shape.sets; ++i)
    sets_.push_back(
        std::make_unique<CaseFrames>(device, resolved, case_layout(posed.variant, i), places));
  larger_ = larger_than(device, resolved, posed);
  for (const auto& frames : sets_) {
    Frames meta = frames->meta();
    if (larger_) meta.forward = larger_->meta().forward;
    const Support support = support_of(provider, meta);
    executions_.push_back(std::make_unique<Execution>(provider,
                                                      frames->prepare_frames(larger_.get()),
                                                      support.need, guarded_, packed_, &children_));
    executions_.back()->plan_by(*executions_[0]);
    frames_.push_back(executions_.back()->fitted(*frames));
    given_ += taken_by(support.need.scratch) + taken_by(support.need.plan);
  }
  called_.assign(sets_.size(), false);
  device.synchronize_all();
  if (is_hidden(shape.asked.variant) && !comm_) take_first_step(posed, shape.asked.draw);
}

void CandidateServer::take_first_step(const PosedCase& posed, uint64_t draw) {
  const auto step = first_step(device_, sets_.at(0)->resolved(), posed, draw);
  if (!step) return;
  for (const auto& execution : executions_) {
    const std::string why = execution->plan(*step);
    if (!why.empty()) fail(provider_.plugin, why);
    if (execution->forward(execution->fitted(*step)) != FK_OK)
      fail(provider_.plugin, std::string("forward: ") + execution->instance().error().text);
    device_.synchronize();
  }
  device_.synchronize_all();
}

int64_t CandidateServer::given() const {
  int64_t all = given_;
  for (const auto& part : guarded_.memory()) all += taken_by(static_cast<int64_t>(part.size()));
  return all;
}

double CandidateServer::plan(const std::vector<int>& sets) {
  double seconds = 0;
  for (const int set : sets) {
    const auto at = static_cast<size_t>(set);
    sets_.at(at)->refresh_plan();
    const double start = now_seconds();
    const std::string why = executions_[at]->plan(*sets_[at]);
    seconds = now_seconds() - start;
    if (!why.empty()) fail(provider_.plugin, why);
  }
  device_.synchronize();
  return seconds;
}

void CandidateServer::call(size_t set) {
  called_[set] = true;
  if (executions_[set]->forward(frames_[set]) != FK_OK)
    fail(provider_.plugin, std::string("forward: ") + executions_[set]->instance().error().text);
}

// Captures the calls on these sets once, because their addresses do not change.
std::shared_ptr<void> CandidateServer::graph(int first, int count) {
  if (!device_.can_capture() || provider_.op->claims->graph != FK_GRAPH_ALWAYS) return nullptr;
  auto& graph = graphs_[{first, count}];
  if (graph) return graph;
  // First calls eagerly, so that the code is loaded before the capture. Each set's instance needs
  // that once. With a plan or other ranks, the code can differ from call to call.
  const bool each_time = comm_ || !provider_.contract->section(SectionId::plan).empty();
  for (int i = 0; i < count; ++i) {
    const size_t set = (static_cast<size_t>(first) + static_cast<size_t>(i)) % sets_.size();
    if (each_time || !called_[set]) call(set);
  }
  device_.synchronize();
  device_.begin_capture();
  const bool candidate = provider_.trust == Trust::candidate;
  device_.mark_capture(provider_.contract->op, candidate,
                       candidate ? executions_[0]->instance().side_streams() : kAnyStreams);
  std::string why;
  try {
    for (int i = 0; i < count; ++i) {
      if (i > 0) device_.separate_calls();
      call((static_cast<size_t>(first) + static_cast<size_t>(i)) % sets_.size());
    }
  } catch (const Error& error) {
    why = error.what();  // the capture must end first
  }
  try {
    graph = device_.end_capture();
  } catch (const Error& error) {
    if (why.empty()) why = error.what_text();
  }
  if (!why.empty()) fail("capture", kCapture + why);
  captured_ = true;
  // One call's share of the capture.
  if (facts_ = device_.captured_facts(); facts_) facts_->launches /= count;
  return graph;
}

// Graphs to launch one after the other for these calls; empty: nothing is captured. Ranks have a
// graph per call, and do not know the number of launches. A kernel that knew the last call of a
// graph could exchange once for all of its calls.
std::vector<void*> CandidateServer::captured_calls(int first, int count) {
  std::vector<void*> out;
  const int sets = static_cast<int>(sets_.size());
  for (int i = 0; i < (comm_ ? count : 1); ++i)
    if (const auto one = comm_ ? graph((first + i) % sets, 1) : graph(first, count))
      out.push_back(one.get());
  return out;
}

// Waits for the work of all streams: none may run while contents are dealt.
void CandidateServer::ready(int first, int count, bool all) {
  (void)captured_calls(first, count);
  device_.synchronize_all();
  if (!device_.host_memory()) return;
  if (!all) {
    for (const auto& part : guarded_.memory())
      if (!watch_.evict(part.data(), static_cast<int64_t>(part.size()))) return watch_.flush();
    return;
  }
  // Makes the plugin's own memory as cold as its inputs. The oracle makes the sets cold.
  const std::span<const std::byte> sets[] = {
      {static_cast<std::byte*>(read_.data()), read_.size()},
      {static_cast<std::byte*>(written_.data()), written_.size()}};
  bool cold = true;
  cold &= visit_own_memory(provider_.op, sets, [&](std::span<const std::byte> part) {
    cold = cold && watch_.evict(part.data(), static_cast<int64_t>(part.size()));
  });
  if (!cold) watch_.flush();
}

void CandidateServer::call_once(int set) {
  if (!comm_) call(static_cast<size_t>(set));
}

// Reads the host's own data for these calls into the caches, as in a model.
void CandidateServer::touch(int first, int count) const {
  unsigned char sum = 0;
  const auto read = [&](const void* from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) sum ^= static_cast<const unsigned char*>(from)[i];
  };
  for (int i = 0; i < count; ++i) {
    const size_t set = (static_cast<size_t>(first) + static_cast<size_t>(i)) % sets_.size();
    read(frames_[set].data(), frames_[set].size() * sizeof(fk_slot));
    read(executions_[set].get(), sizeof(Execution));
    read(&executions_[set]->instance(), sizeof(Instance));
    sets_[set]->for_views(read);
  }
  [[maybe_unused]] volatile unsigned char seen = sum;
}

// Starts no clock before all ranks are here and awake. A rank that was woken for the first meeting
// arrives last at the second.
void CandidateServer::begin_together() {
  if (!comm_) return;
  for (int i = 0; i < 2; ++i) comm_->meeting().meet(CommCall::of("begin", 0, 0));
}

void CandidateServer::enqueue(int first, int count, const std::vector<void*>& captured) {
  for (void* const one : captured) device_.launch(one);
  for (int i = 0; captured.empty() && i < count; ++i)
    call((static_cast<size_t>(first) + static_cast<size_t>(i)) % sets_.size());
}

double CandidateServer::run_warm(int first) {
  const int second = (first + 1) % static_cast<int>(sets_.size());
  const std::vector<void*> its = captured_calls(first, 1), before = captured_calls(second, 1);
  begin_together();
  enqueue(second, 1, before);  // once, because its updates in place are compared too
  if (comm_) comm_->align();
  watch_.start();
  enqueue(first, 1, its);
  watch_.stop();
  const double seconds = watch_.seconds();
  device_.synchronize_all();
  return seconds;
}

double CandidateServer::run(int first, int count, int core, bool eager,
                            const std::function<void()>& done) {
  if (core >= 0 && device_.host_memory() && !comm_) go_to_core(core);
  std::vector<void*> captured;
  if (count && !eager) captured = captured_calls(first, count);
  begin_together();
  if (!count) return 0;
  // The flush gives the host time to get ahead, so that the device waits for no launch between the
  // events.
  if (!device_.host_memory())
    watch_.flush();
  else
    touch(first, count);
  // The devices begin together behind this, even after a late host.
  if (comm_) comm_->align();
  const double begin_s = now_seconds();
  watch_.start();
  enqueue(first, count, captured);
  watch_.stop();
  if (comm_ && device_.host_memory()) span_ = {begin_s, now_seconds()};
  const double seconds = watch_.seconds() / count;
  if (done) done();
  device_.synchronize_all();  // work on other streams is within the controller's time
  return seconds;
}

}  // namespace fk
