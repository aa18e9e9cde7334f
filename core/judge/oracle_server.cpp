// SPDX-License-Identifier: Apache-2.0
#include "core/judge/oracle_server.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/cases/numerics/moved_inputs.hpp"
#include "core/cases/routing.hpp"
#include "core/check/bench.hpp"
#include "core/check/rank_oracle.hpp"
#include "core/exec/peaks.hpp"
#include "core/judge/rank_mutants.hpp"
#include "core/measure/sampler.hpp"

namespace fk {

namespace {

// Rough speeds of a core and a memory channel, from which the number of sets follows.
constexpr int64_t kEvictBytes = int64_t{16} << 20;
constexpr double kLaunchSeconds = 2e-6, kDeviceSample = 200e-6;
constexpr int64_t kDeviceSetBytes = int64_t{2} << 30;
constexpr int kDeviceSets = 96;
constexpr double kFlopsPerSecond = 4e9, kBytesPerSecond = 8e9, kCallSeconds = 0.5e-6;
// Data over a link may be packed without loss. Sign and fraction of random bfloat16 are noise:
// eight of sixteen bits.
constexpr double kPacked = 0.5;
constexpr double kExchangeSeconds = 5e-6;  // ranks wait for each other at least once
// Share of a call's bytes. Reading a smaller share once for several calls gains no more than this.
constexpr double kWeightsMatter = 0.01;
constexpr int kVersionsMost = 31;
// written by a kernel, to wait for a turn on the device
constexpr int64_t kTurnBytes = int64_t{1} << 12;

}  // namespace

OracleServer::OracleServer(const Contract& contract, AskedCase asked, PosedCase posed,
                           uint64_t seed, CaseRunOptions options)
    : contract_(contract),
      posed_(std::move(posed)),
      options_(std::move(options)),
      oracles_(Oracles::of(*options_.plugins, contract.op)) {
  shape_.asked = std::move(asked);
  ResolvedCase resolved = resolve(contract, posed_.source, posed_.variant);
  for (const int ranks = ranks_of_case(resolved); resolved.rank < ranks; ++resolved.rank) {
    Device* const its = options_.devices.at(static_cast<size_t>(resolved.rank));
    buffers_.push_back(std::make_unique<RankBuffers>(*its, resolved, posed_.variant));
    if (std::none_of(watches_.begin(), watches_.end(),
                     [&](const auto& known) { return known.first == its; }))
      watches_.emplace_back(its, &options_.watch_of(*its));
  }
  provider_ = oracle_of(oracles_, device().type(), this->resolved(), unjudged_);
  if (!provider_) return;
  oracle_ = provider_->plugin;
  measure();
  make_contents(seed);
  if (!unjudged_.empty()) return;
  CaseValues first = buffers_[0]->lend(0);
  skew_ = skew_of(this->resolved(), first).value_or(0);
  buffers_[0]->take_back(0, std::move(first));
  try_nulls();
  place();
  count_wire();
  options_.alive = [] {};
}

void OracleServer::count_wire() {
  for (size_t i = 0; i < contents(); ++i) {
    const double bytes = wire_of_device(
        device(), resolved(), [&](const ResolvedCase& there, const std::string& field) {
          return buffers_[static_cast<size_t>(there.rank)]->inputs(i).at(field).at(0);
        });
    wire_ = i == 0 ? bytes : std::min(wire_, bytes);
  }
}

std::vector<std::string> OracleServer::generated() const {
  std::vector<std::string> out;
  if (!posed_.source.contents) return out;
  for (const auto& f : resolved().fields)
    if (f.present && (f.slot->section == SectionId::weights || f.slot->role != Role::out) &&
        !posed_.source.contents->count(f.slot->name))
      out.push_back(f.slot->name);
  return out;
}

const char* OracleServer::family_name_of(size_t content) const {
  return family_name(families_.at(content));
}

double OracleServer::flops() const {
  return static_cast<double>(contract_.flops.eval(resolved().axes));
}

double OracleServer::roofline_s() const {
  const auto peaks = peaks_of(device().name());
  return peaks ? fk::roofline_s(*peaks, resolved(), {bytes_, flops(), wire_}) : 0;
}

double OracleServer::floor_s() const {
  auto peaks = peaks_of(device().name());
  if (!peaks) return 0;
  // Data in the last cache may not be read again, nor weights of experts without a token.
  const double cached = has_routing(contract_) ? bytes_ : static_cast<double>(peaks->cache_bytes);
  // Tensor cores compute float32 in three products of a lower class.
  const auto low = peaks->flops_per_s.find(DType::bf16);
  const auto exact = peaks->flops_per_s.find(DType::f32);
  if (low != peaks->flops_per_s.end() && exact != peaks->flops_per_s.end())
    exact->second = std::max(exact->second, low->second / 3);
  const double bytes = std::max(0.0, bytes_ - cached);
  return fk::roofline_s(*peaks, resolved(), {bytes, flops(), kPacked * wire_});
}

double OracleServer::copy_s(int calls, int threads) const {
  const auto measure = [&] {
    return copy_seconds(device(), *watches_.at(0).second, static_cast<int64_t>(bytes_), calls,
                        threads);
  };
  if (device().host_memory()) return measure();
  // A device copies equally fast each time, and one measurement takes as long as thirty samples.
  static std::map<std::tuple<std::string, double, int>, double> known;
  const std::tuple key(device().name(), bytes_, std::min(calls, kCopiesMost));
  const auto at = known.find(key);
  return at != known.end() ? at->second : known.emplace(key, measure()).first->second;
}

// Chooses the places before `called`: a read that comes later could miss work that is still going
// on.
void OracleServer::wait_for_turns(const std::vector<int>& sets,
                                  const std::function<bool()>& called) {
  probes_.clear();
  std::vector<std::pair<size_t, std::span<const std::byte>>> places;  // by rank
  for (size_t i = 0; i < std::min(MemoryProbes::kMost, sets.size()); ++i) {
    const size_t rank = anywhere_() % buffers_.size();
    const int set = sets[anywhere_() % sets.size()];
    const auto at = buffers_[rank]->somewhere(set, MemoryProbes::kBytes, anywhere_);
    if (!at.empty()) places.emplace_back(rank, at);
  }
  if (!called()) return;
  for (const auto& [rank, at] : places) probes_.add(*options_.devices[rank], at);
  for (size_t i = 0; i < watches_.size(); ++i)
    watches_[i].first->fill_bits(littles_[i].data(), kTurnBytes, true);  // by a kernel
  synchronize();
}

bool OracleServer::has_plan() const { return !contract_.section(SectionId::plan).empty(); }

CheckOptions OracleServer::oracle_options() const {
  CheckOptions check;
  check.device = &device();
  check.threads = options_.threads;
  check.plugins = options_.plugins;
  return check;
}

std::vector<CaseValues> OracleServer::answers_to(const std::vector<CaseValues>& contents) {
  std::string why;
  auto out = references_of_ranks(*provider_, resolved(), posed_.source, posed_.variant, contents,
                                 oracle_options(), why);
  // The CPU's oracle may take a small case that the device's oracle refuses.
  if (std::string none; !why.empty() && provider_ == oracles_.device && oracles_.cpu) {
    const Provider* const cpu =
        oracle_of({oracles_.cpu, nullptr}, device().type(), resolved(), none);
    if (cpu) {
      provider_ = cpu;
      oracle_ = cpu->plugin;
      why.clear();
      return answers_to(contents);
    }
  }
  if (!why.empty() && unjudged_.empty()) unjudged_ = why;
  return out;
}

AskReference OracleServer::asker(int rank, size_t content) {
  AskReference ask = [this, rank, content](const CaseValues& values, AskReference::Moved moved) {
    const auto own = static_cast<size_t>(rank);
    std::vector<CaseValues> all;
    for (size_t r = 0; r < buffers_.size(); ++r)
      all.push_back(r == own ? values : buffers_[r]->lend(content));
    std::vector<CaseValues> lent;
    if (moved) lent = all;
    if (moved) move_others(buffers_[own]->resolved(), *moved, all);
    auto answers = answers_to(all);
    for (size_t r = 0; r < buffers_.size(); ++r)
      if (r != own) buffers_[r]->take_back(content, std::move((moved ? lent : all)[r]));
    return std::move(answers[own]);
  };
  return ask.with_changes([this](const CallChange& change, const CaseValues& values) {
    options_.alive();
    return changed_outputs(*provider_, resolved(), posed_.source, posed_.variant, change, values,
                           oracle_options());
  });
}

void OracleServer::try_nulls() {
  // Variants of other shapes test rules. With one row or none, a wrong answer is often right.
  if (!posed_.variant.axes.empty() || !posed_.variant.listed.empty()) return;
  // By case; a process has one set of contracts.
  static std::map<std::string, std::vector<MutantRow>> known;
  const std::string key = shape_.asked.key();
  const auto found = known.find(key);
  if (found != known.end()) {
    nulls_ = found->second;
    return;
  }
  std::vector<CaseValues> inputs, want;
  for (const auto& buffers : buffers_) {
    inputs.push_back(buffers->lend(0));
    want.push_back(buffers->want(0));
  }
  if (ranks() == 1) {
    const auto ask = [this](const ResolvedCase& call, const Variant& variant,
                            const CaseValues& values) {
      options_.alive();
      std::string why;
      return reference_outputs(*provider_, call, posed_.source, variant, values, oracle_options(),
                               why);
    };
    nulls_ = try_mutants(resolved(), posed_.source, posed_.variant, inputs[0], want[0], ask,
                         options_.gate_s);
  } else {
    const auto ask = [this](const std::vector<CaseValues>& contents) {
      options_.alive();
      std::string why;
      return references_of_ranks(*provider_, resolved(), posed_.source, posed_.variant, contents,
                                 oracle_options(), why);
    };
    nulls_ = try_rank_mutants(resolved(), inputs, want, ask, options_.gate_s);
  }
  for (size_t r = 0; r < buffers_.size(); ++r) buffers_[r]->take_back(0, std::move(inputs[r]));
  known.emplace(key, nulls_);
}

void OracleServer::measure() {
  SharedPlaces one;
  CaseFrames::measure(device(), resolved(), case_layout(posed_.variant, 0), one);
  set_bytes_ = one.read.taken() + one.written.taken();
  bytes_ = static_cast<double>(set_bytes_);
  if (contract_.bytes) bytes_ = static_cast<double>(contract_.bytes->eval(resolved().axes));
  double weights = 0, all = 0;
  for (const auto& f : resolved().fields) {
    for (int64_t i = 0; f.present && i < f.entries; ++i) {
      const auto size = static_cast<double>(numel(f.shape_of(i)) * fk::bytes(f.dtype));
      all += size;
      if (f.slot->section == SectionId::weights) weights += size;
    }
  }
  if (contract_.bytes) all = std::min(all, bytes_);
  weights_matter_ = weights > 0 && weights >= kWeightsMatter * all;
}

// Number of calls that makes a sample long enough, by an optimistic guess. A device's clock is
// inside the device, so its samples may be shorter.
int OracleServer::calls_wanted() const {
  const bool host = device().host_memory();
  const double least = roofline_s();
  double call = std::max({ranks() > 1 ? kExchangeSeconds : kCallSeconds, flops() / kFlopsPerSecond,
                          bytes_ / kBytesPerSecond});
  if (!host && least > 0) call = std::max(kLaunchSeconds, least);
  const double sample = host ? options_.call_s : std::min(options_.call_s, kDeviceSample);
  const int most = host ? options_.sets_max : std::min(options_.sets_max, kDeviceSets);
  return static_cast<int>(std::min<double>(std::ceil(sample / call), most));
}

int OracleServer::sets_room() const {
  const int64_t memory =
      device().host_memory() ? options_.memory : std::max(options_.memory, kDeviceSetBytes);
  return static_cast<int>(
      std::clamp<int64_t>(memory / std::max<int64_t>(set_bytes_ * ranks(), 1), 2, 1 << 20));
}

// An odd number: of two sets of one version, one ends at a page without access.
int OracleServer::versions_wanted() const {
  if (!weights_matter_) return 1;
  for (const auto& f : resolved().fields)  // recorded weights exist once
    if (f.slot->section == SectionId::weights && posed_.source.contents &&
        posed_.source.contents->count(f.slot->name))
      return 1;
  const int most = std::min({calls_wanted(), sets_room() / 2, kVersionsMost});
  return std::max(1, most - (most % 2 == 0));
}

void OracleServer::place() {
  shape_.sets =
      weights_matter_ ? 2 * versions_ : std::clamp(calls_wanted(), 2, std::max(2, sets_room()));
  SharedPlaces all;
  for (int i = 0; i < shape_.sets; ++i)
    CaseFrames::measure(device(), resolved(), case_layout(posed_.variant, i), all);
  shape_.read_bytes = shared_bytes(all.read);
  shape_.written_bytes = shared_bytes(all.written);
  for (const auto& buffers : buffers_) buffers->place(shape_.sets, all);
  dealt_.assign(static_cast<size_t>(shape_.sets), 0);
  if (!device().host_memory()) {
    probes_.reserve(device());
    for (const auto& [its, watch] : watches_)
      littles_.emplace_back(*its, kTurnBytes, "a look at the device");
  }
  synchronize();
}

std::vector<int> OracleServer::fds() const {
  std::vector<int> out;
  for (const auto& buffers : buffers_) {
    out.push_back(buffers->read_fd());
    out.push_back(buffers->written_fd());
  }
  return out;
}

void OracleServer::deal(const std::vector<int>& sets, const std::vector<int>& contents,
                        Poison poison, bool numbers_only, int beside, int its) {
  FK_CHECK(sets.size() == contents.size(), "a content for each set");
  for (const auto& [device, watch] : watches_) device->gather(true);
  const auto deal_one = [&](int set, int content) {
    FK_CHECK(set % versions_ == content % versions_, "a content with other weights");
    dealt_.at(static_cast<size_t>(set)) = content;
    if (set == beside_) beside_ = -1;
    for (const auto& buffers : buffers_) buffers->deal(set, content, poison, numbers_only);
  };
  for (size_t i = 0; i < sets.size(); ++i) deal_one(sets[i], contents[i]);
  if (beside >= 0) deal_one(beside, its);
  for (const auto& [device, watch] : watches_) device->gather(false);
  if (beside >= 0) {
    beside_ = beside;
    const Glances seen = glance({beside});
    beside_prints_.clear();
    for (const auto& buffers : buffers_) beside_prints_.push_back(buffers->writable_print(beside));
  }
  synchronize();
}

bool OracleServer::touched_beside() const {
  for (size_t r = 0; r < buffers_.size() && beside_ >= 0; ++r)
    if (buffers_[r]->writable_print(beside_) != beside_prints_[r]) return true;
  return false;
}

std::string OracleServer::damage() const {
  std::vector<int> sets(static_cast<size_t>(shape_.sets));
  std::iota(sets.begin(), sets.end(), 0);
  const Glances seen = glance(sets);
  std::vector<const GuardedBuffer*> all;
  for (const int set : sets)
    for (const auto& buffers : buffers_) buffers->buffers(set, all);
  for (const GuardedBuffer* buffer : all)
    if (std::string found = buffer->damage(); !found.empty()) return found;
  return "";
}

void OracleServer::synchronize() const {
  for (const auto& [device, watch] : watches_) device->synchronize();
}

OracleServer::Glances OracleServer::glance(const std::vector<int>& sets) const {
  Glances out;
  for (const auto& [device, watch] : watches_) {
    std::vector<const GuardedBuffer*> all;
    for (size_t r = 0; r < buffers_.size(); ++r)
      for (const int set : sets)
        if (options_.devices[r] == device) buffers_[r]->buffers(set, all);
    out.push_back(std::make_unique<GuardedBuffer::Glance>(*device, std::move(all)));
  }
  return out;
}

void OracleServer::flush(const std::vector<int>& sets) {
  std::vector<std::span<const std::byte>> all;
  for (int set = 0; set < shape_.sets; ++set)
    if (weights_matter_ || std::count(sets.begin(), sets.end(), set))
      for (const auto& buffers : buffers_) buffers->memory(set, all);
  int64_t bytes = 0;
  for (const auto& part : all) bytes += static_cast<int64_t>(part.size());
  bool out = bytes < kEvictBytes;
  for (const auto& part : all)
    out = out && watches_[0].second->evict(part.data(), static_cast<int64_t>(part.size()));
  for (const auto& [device, watch] : watches_)
    if (!out) watch->flush();
}

std::vector<SetFinding> OracleServer::look(const std::vector<int>& sets, int side, bool words,
                                           const std::function<void()>& alive) {
  std::vector<SetFinding> out;
  std::vector<int> all = sets;
  if (beside_ >= 0) all.push_back(beside_);
  const Glances seen = glance(all);
  for (const int set : sets) {
    out.push_back(look_at(set, side, words));
    if (!out.back().ok) break;
    alive();
  }
  if (out.empty()) return out;
  const bool late = probes_.changed();
  probes_.clear();
  if (!late && !touched_beside()) return out;
  out.resize(1);  // the first finding is wrong, and the last that is read
  out[0].ok = false;
  out[0].rule = late ? kLateRule : "guard";
  out[0].text = late ? "outputs were written after its process had reported the end of the calls"
                     : "the tensors of a call that was not made were written";
  return out;
}

SetFinding OracleServer::look_at(int set, int side, bool words) {
  const int content = dealt_[static_cast<size_t>(set)];
  const auto at = static_cast<size_t>(content);
  const bool ordinary = families_.at(at) == Family::ordinary;
  if (ranks() == 1) return buffers_[0]->look(set, content, side, ordinary, asker(0, at), words);
  SetFinding all;
  all.set = set;
  all.content = content;
  for (int r = 0; r < ranks(); ++r) {
    SetFinding one =
        buffers_[static_cast<size_t>(r)]->look(set, content, side, ordinary, asker(r, at), words);
    all.worst = std::max(all.worst, one.worst);
    all.changed |= one.changed;
    if (all.undecided.empty()) all.undecided = std::move(one.undecided);
    if (one.ok || !all.ok) continue;
    all.ok = false;
    all.rule = std::move(one.rule);
    all.text = "rank " + std::to_string(r) + ": " + one.text;
    all.field = std::move(one.field);
    all.wrong = std::move(one.wrong);
    all.stale = one.stale;
  }
  if (!all.ok) all.undecided.clear();
  for (int r = 1; r < ranks() && all.ok; ++r) {
    const std::string field = buffers_[static_cast<size_t>(r)]->differs_from(*buffers_[0], set);
    if (field.empty()) continue;
    all.ok = false;
    all.rule = "replicated";
    all.text = "rank " + std::to_string(r) + ": " + field +
               " has other bits than on rank 0; it must be equal on all ranks";
  }
  return all;
}

}  // namespace fk
