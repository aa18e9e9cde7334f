// SPDX-License-Identifier: Apache-2.0
#include "core/referee/bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "core/base/error.hpp"
#include "core/referee/execute.hpp"

namespace fk {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (at - static_cast<double>(low));
}

constexpr int64_t kColdBytes = int64_t{256} << 20;  // all sets together
constexpr int kSetsMax = 64;

// One provider in one case: an instance per set of buffers, so that weights rotate as well.
class Contender {
 public:
  Contender(const Provider& provider, const ResolvedCase& resolved, const CaseValues& values,
            int sets, int threads, const Plugins& plugins)
      : device_(0, threads), children_(plugins, provider.plugin) {
    Layout layout;
    layout.snapshot = false;
    for (int i = 0; i < sets; ++i) {
      frames_.push_back(std::make_unique<CaseFrames>(resolved, values, layout));
      const Support support = Instance::supports(provider, frames_.back()->meta());
      if (!support.ok) throw Error(provider.plugin, "refused: " + support.why);
      executions_.push_back(std::make_unique<Execution>(provider, *frames_.back(), support.need,
                                                        device_, packed_, &children_));
      const std::string why = executions_.back()->plan(*frames_.back());
      if (!why.empty()) throw Error(provider.plugin, why);
      slots_.push_back(executions_.back()->fitted(*frames_.back()));
    }
  }
  // Seconds of one plan and call on a set.
  double call(size_t set) {
    const double start = now();
    const std::string why = executions_[set]->plan(*frames_[set]);
    const int32_t status = executions_[set]->forward(slots_[set]);
    const double took = now() - start;
    if (!why.empty()) throw Error("bench", why);
    if (status != FK_OK) throw Error("bench", executions_[set]->instance().error().text);
    return took;
  }
  double cold() { return call(next_++ % executions_.size()); }
  double warm() { return call(0); }
  std::vector<double> cold_samples, warm_samples;

 private:
  GuardDevice device_;
  PackedCache packed_;
  LoadedChildren children_;
  std::vector<std::unique_ptr<CaseFrames>> frames_;
  std::vector<std::unique_ptr<Execution>> executions_;
  std::vector<std::vector<fk_slot>> slots_;
  size_t next_ = 0;
};

struct Entry {
  BenchRow row;
  std::unique_ptr<Contender> contender;
};

void measure(std::vector<Entry>& entries, double seconds) {
  std::vector<Entry*> racing;
  for (auto& e : entries)
    if (e.contender) racing.push_back(&e);
  if (racing.empty()) return;
  const auto sample = [](Entry& e) { e.contender->cold_samples.push_back(e.contender->cold()); };
  for (Entry* e : racing) {
    e->contender->cold();  // loads, lazily made library objects
    sample(*e);
  }
  const double end = now() + seconds * static_cast<double>(racing.size());
  for (int round = 0; round < 1000 && now() < end; ++round) {
    if (round % 2) std::reverse(racing.begin(), racing.end());
    for (Entry* e : racing) {
      // One that takes a large part of the budget for a single call is not asked again and again.
      const auto& samples = e->contender->cold_samples;
      if (samples.size() >= 3 &&
          quantile(samples, 0.5) * static_cast<double>(samples.size()) > seconds)
        continue;
      sample(*e);
    }
    if (round % 2) std::reverse(racing.begin(), racing.end());
  }
  for (Entry* e : racing) {
    const int count = quantile(e->contender->cold_samples, 0.5) > seconds / 8 ? 1 : 8;
    e->contender->warm();
    for (int i = 0; i < count; ++i) e->contender->warm_samples.push_back(e->contender->warm());
  }
}

std::vector<BenchRow> bench_case(const Plugins& plugins, const Contract& contract,
                                 const Case& source, const BenchOptions& options) {
  const Variant written;
  const ResolvedCase resolved = resolve(contract, source, written);
  const CaseValues values = make_inputs(resolved, options.seed, options.threads);
  CheckOptions check;
  check.size = source.size;
  check.only_case = source.name;
  check.quick = true;
  check.seed = options.seed;
  check.threads = options.threads;
  check.plugins = &plugins;
  const Provider* reference = nullptr;
  for (const Provider* p : plugins.of(contract.op))
    if (p->plugin == "reference") reference = p;
  std::vector<Entry> entries;
  for (const Provider* p : plugins.of(contract.op)) {
    if (!options.providers.empty() && std::find(options.providers.begin(), options.providers.end(),
                                                p->plugin) == options.providers.end())
      continue;
    Entry e;
    e.row.op = contract.op;
    e.row.case_name = source.name;
    e.row.provider = p->plugin;
    // The reference is judged by other means than itself: its values are what the others are
    // compared with.
    if (p != reference) {
      for (const auto& row : check_provider(*p, reference, check).rows) {
        if (row.status == CheckStatus::unsupported) e.row.why = "refused: " + row.text;
        if (row.status == CheckStatus::wrong || row.status == CheckStatus::violation)
          e.row.why = std::string(status_name(row.status)) + ": " + row.text;
      }
    }
    if (e.row.why.empty()) {
      try {
        Layout layout;
        layout.snapshot = false;
        const int64_t bytes = std::max<int64_t>(CaseFrames(resolved, values, layout).bytes(), 1);
        const int sets = static_cast<int>(std::clamp<int64_t>(kColdBytes / bytes, 2, kSetsMax));
        e.contender =
            std::make_unique<Contender>(*p, resolved, values, sets, options.threads, plugins);
        e.row.bytes = contract.bytes ? static_cast<double>(contract.bytes->eval(resolved.axes))
                                     : static_cast<double>(bytes);
        e.row.flops = static_cast<double>(contract.flops.eval(resolved.axes));
      } catch (const Error& error) {
        e.row.why = error.what_text();
      }
    }
    entries.push_back(std::move(e));
  }
  measure(entries, options.seconds);
  double reference_s = 0;
  std::vector<BenchRow> rows;
  for (auto& e : entries) {
    if (e.contender) {
      const auto& samples = e.contender->cold_samples;
      e.row.cold_s = quantile(samples, 0.5);
      e.row.cold_low_s = quantile(samples, 0.25);
      e.row.cold_high_s = quantile(samples, 0.75);
      e.row.warm_s = quantile(e.contender->warm_samples, 0.5);
      e.row.samples = static_cast<int>(samples.size());
      if (e.row.cold_s > 0)
        e.row.of_copy = e.row.bytes / e.row.cold_s / copy_bytes_per_s(options.threads);
      if (e.row.provider == "reference") reference_s = e.row.cold_s;
    }
    rows.push_back(e.row);
  }
  for (auto& row : rows)
    if (row.cold_s > 0 && reference_s > 0) row.speedup = reference_s / row.cold_s;
  return rows;
}

}  // namespace

double copy_bytes_per_s(int threads) {
  static std::map<int, double> known;
  if (const auto it = known.find(threads); it != known.end()) return it->second;
  constexpr size_t kBytes = size_t{128} << 20;
  GuardedBuffer from(kBytes, 0), to(kBytes, 1);
  from.poison(Poison::ones);
  to.poison(Poison::ones);
  const size_t part = kBytes / static_cast<size_t>(std::max(threads, 1));
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    const double start = now();
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) {
      const size_t at = part * static_cast<size_t>(t);
      others.emplace_back([&, at] { std::memcpy(to.data() + at, from.data() + at, part); });
    }
    std::memcpy(to.data(), from.data(), part);
    for (auto& thread : others) thread.join();
    times.push_back(now() - start);
  }
  const double rate = 2 * static_cast<double>(part) * std::max(threads, 1) / quantile(times, 0.5);
  known[threads] = rate;
  return rate;
}

std::vector<BenchRow> bench_op(const Plugins& plugins, const std::string& op,
                               const BenchOptions& options) {
  const Contract& contract = plugins.catalog().at(op);
  std::vector<BenchRow> rows;
  for (const Case& source : contract.cases) {
    if (source.size != options.size) continue;
    auto some = bench_case(plugins, contract, source, options);
    rows.insert(rows.end(), std::make_move_iterator(some.begin()),
                std::make_move_iterator(some.end()));
  }
  return rows;
}

}  // namespace fk
