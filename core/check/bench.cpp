// SPDX-License-Identifier: Apache-2.0
#include "core/check/bench.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "core/cases/routing.hpp"
#include "core/check/routing_race.hpp"
#include "core/device/rank_device.hpp"
#include "core/measure/sampler.hpp"

namespace fk {

namespace {

constexpr int64_t kDeviceMemory = int64_t{24} << 30;  // for the sets of buffers of a case
constexpr int64_t kHostMemory = int64_t{256} << 20;
// A sample must be long compared with the resolution of events, half a microsecond.
constexpr double kSampleSeconds = 50e-6;
constexpr int kCallsMax = 16;
constexpr int kWarmSamples = 9;

// One case of one op.
class CaseBench {
 public:
  CaseBench(const Plugins& plugins, const Contract& contract, const Case& source,
            const BenchOptions& options)
      : plugins_(plugins),
        contract_(contract),
        source_(source),
        options_(options),
        oracles_(Oracles::of(plugins, contract.op)),
        comm_(contract.comm() ? options.comm : nullptr),
        resolved_(resolve(contract, source, written())),
        cpu_(open_device("cpu")),
        device_(options.device ? *options.device : *cpu_) {
    if (contract.comm() && !comm_)
      left_out_ = "left out: the op needs several ranks, and bench OP has one";
    else if (device_.host_memory() && options.cases.empty())
      left_out_ = too_large_for_cpu(resolved_);
  }

  std::vector<BenchRow> run() {
    for (const Provider* p : providers()) {
      Entry e;
      e.provider = p;
      e.row.op = contract_.op;
      e.row.case_name = source_.name;
      e.row.axes = resolved_.axes;
      e.row.provider = p->plugin;
      if (!left_out_.empty())
        e.row.why = left_out_;
      else
        judge(*p, e.row);
      entries_.push_back(std::move(e));
    }
    if (std::any_of(entries_.begin(), entries_.end(),
                    [](const Entry& e) { return e.row.why.empty(); }))
      comm_ ? measure_together() : measure();
    std::vector<BenchRow> rows;
    for (auto& e : entries_) rows.push_back(std::move(e.row));
    return rows;
  }

 private:
  struct Entry {
    BenchRow row;
    const Provider* provider = nullptr;
    std::unique_ptr<ProviderSampler> sampler;
  };

  Variant written() const {
    Variant out;
    if (comm_) out.comm = comm_->table();
    return out;
  }

  // A failure on one rank is a failure on all ranks, for all providers, because they share buffers.
  void measure_together() {
    std::string why;
    try {
      measure();
    } catch (const Error& error) {
      why = error.what();
    }
    for (auto& e : entries_) {
      e.sampler.reset();
      if (!why.empty() && e.row.why.empty()) e.row.why = why;
    }
    if (!why.empty()) comm_->meeting().give_up(why);
    comm_->settle();
  }

  void step(const std::string& what) const {
    if (options_.on_step) options_.on_step(contract_.op + ", case " + source_.name + ": " + what);
  }

  // Providers in the named order, else with the CPU's oracle first. A GPU's oracle is slow code in
  // double. It takes part only when named, or when there is no other provider.
  std::vector<const Provider*> providers() const {
    std::vector<const Provider*> out;
    for (const Provider* p : plugins_.of(contract_.op))
      if (p->op->claims->device_type == device_.type()) out.push_back(p);
    const auto& names = options_.providers;
    const auto place = [&](const Provider* p) {
      if (names.empty()) return p == oracles_.cpu ? 0l : 1l;
      return std::find(names.begin(), names.end(), p->plugin) - names.begin();
    };
    if (!names.empty())
      std::erase_if(out, [&](auto* p) { return place(p) == static_cast<long>(names.size()); });
    else if (out.size() > 1)
      std::erase_if(out, [&](auto* p) { return p == oracles_.device; });
    std::stable_sort(out.begin(), out.end(), [&](auto* a, auto* b) { return place(a) < place(b); });
    return out;
  }

  void judge(const Provider& p, BenchRow& out) {
    // other checks judge the CPU's oracle
    if (&p == oracles_.cpu) return;
    step("values of " + p.plugin);
    find_faults(p, out);
    if (comm_ && !comm_->meeting().all_say("right", out.why.empty()) && out.why.empty())
      out.why = "wrong on another rank";
  }

  void find_faults(const Provider& p, BenchRow& out) {
    CheckOptions check;
    check.values_only = true;
    check.device = options_.device;
    check.seed = options_.seed;
    check.threads = options_.threads;
    check.plugins = &plugins_;
    check.comm = comm_;
    const CheckRow row = check_case(p, oracles_, source_, check, answers_);
    if (row.status == CheckStatus::unsupported) out.why = "refused: " + row.text;
    if (row.status == CheckStatus::wrong || row.status == CheckStatus::violation)
      out.why = std::string(status_name(row.status)) + ": " + row.text;
    if (row.status == CheckStatus::unjudged || row.status == CheckStatus::left_out)
      out.note = "values not judged: " + row.text;
  }

  void measure() {
    step("buffers");
    if (!answers_.inputs) answers_.inputs = make_inputs(resolved_, options_.seed, options_.threads);
    const double skew = skew_of(resolved_, *answers_.inputs).value_or(0);
    for (auto& e : entries_) e.row.skew = skew;
    const auto watch = device_.stopwatch();
    const BufferSets sets(device_, resolved_, *answers_.inputs,
                          device_.host_memory() ? kHostMemory : kDeviceMemory);
    answers_ = {};
    const double bytes = contract_.bytes
                             ? static_cast<double>(contract_.bytes->eval(resolved_.axes))
                             : static_cast<double>(sets.bytes());
    const double wire = wire_of_device(
        device_, resolved_, [this](const ResolvedCase& there, const std::string& field) {
          return make_field(there, field, options_.seed, options_.threads).at(0);
        });
    CopySampler copy(device_, *watch, sets.count(), static_cast<int64_t>(bytes), options_.threads,
                     options_.seed);
    for (auto& e : entries_) {
      e.row.cost = {bytes, static_cast<double>(contract_.flops.eval(resolved_.axes)), wire};
      if (!e.row.why.empty()) continue;
      try {
        step("preparing " + e.row.provider);
        e.sampler = std::make_unique<ProviderSampler>(*e.provider, device_, *watch, sets, plugins_,
                                                      options_.threads, options_.seed);
        if (!options_.graphs) e.sampler->stay_eager();
        e.sampler->set_calls(1);
      } catch (const Error& error) {
        if (comm_) throw;
        e.row.why = error.what();
        e.sampler.reset();
      }
    }
    compete(copy);
  }

  void compete(CopySampler& copy) {
    std::vector<Entry*> racing;
    for (auto& e : entries_)
      if (e.sampler) racing.push_back(&e);
    if (racing.empty()) return;
    step("timing");
    std::vector<Contender*> contenders;
    for (Entry* e : racing) contenders.push_back(e->sampler.get());
    contenders.push_back(&copy);
    if (comm_) {
      for (Entry* e : racing) e->sampler->set_communicator(comm_);
      copy.set_communicator(comm_);
    }
    const int calls = calls_for(racing);
    copy.set_calls(calls);
    for (Entry* e : racing) e->sampler->set_calls(calls);
    RaceOptions race_options;
    race_options.seconds = options_.seconds * static_cast<double>(racing.size());
    if (comm_)
      race_options.spent = [this](double own) { return comm_->meeting().slowest("spent", own); };
    const RaceResult result = race(contenders, race_options);
    const auto peaks = peaks_of(device_.name());
    for (size_t i = 0; i < racing.size(); ++i) {
      BenchRow& row = racing[i]->row;
      const ProviderSampler& sampler = *racing[i]->sampler;
      row.cold = result.timing(i);
      row.copy_s = result.timing(racing.size()).median_s;
      row.calls = sampler.calls();
      row.captured = sampler.captured();
      row.host_bound = sampler.host_bound();
      row.plan_s = sampler.plan_s();
      row.settled = result.settled();
      if (peaks && row.cold.median_s > 0)
        row.roofline = roofline_s(*peaks, resolved_, row.cost) / row.cold.median_s;
      if (i > 0) {
        row.against = racing[0]->row.provider;
        row.ratio = result.ratio(i, 0);
      }
      warm(*racing[i]);
    }
  }

  // Number of calls that makes the fastest contender's sample long enough.
  int calls_for(const std::vector<Entry*>& racing) const {
    if (!device_.can_capture() || !options_.graphs) return 1;
    double fastest = kSampleSeconds;
    for (Entry* e : racing) {
      e->sampler->sample();
      for (int i = 0; i < 3; ++i)
        if (const auto s = e->sampler->sample(); s && *s > 0) fastest = std::min(fastest, *s);
    }
    return std::clamp(static_cast<int>(std::ceil(kSampleSeconds / fastest)), 1, kCallsMax);
  }

  void warm(Entry& e) const {
    const int count = e.row.cold.median_s > options_.seconds / kWarmSamples ? 1 : kWarmSamples;
    std::vector<double> samples;
    for (int i = 0; i < count; ++i)
      if (const auto s = e.sampler->warm()) samples.push_back(*s);
    e.row.warm_s = quantile(samples, 0.5);
  }

  const Plugins& plugins_;
  const Contract& contract_;
  const Case& source_;
  const BenchOptions& options_;
  const Oracles oracles_;
  Communicator* const comm_;  // null: one rank
  const ResolvedCase resolved_;
  std::unique_ptr<Device> cpu_;
  Device& device_;
  std::string left_out_;
  CaseAnswers answers_;
  std::vector<Entry> entries_;
};

}  // namespace

double roofline_s(const Peaks& peaks, const ResolvedCase& resolved, const CallCost& cost) {
  std::optional<DType> smallest;
  for (const auto& f : resolved.fields) {
    const bool read = f.slot->section == SectionId::weights || f.slot->role != Role::out;
    if (!f.present || !read || !is_float(f.dtype)) continue;
    if (!smallest || fk::bytes(f.dtype) < fk::bytes(*smallest)) smallest = f.dtype;
  }
  const auto peak = peaks.flops_per_s.find(smallest.value_or(DType::f32));
  if (peak == peaks.flops_per_s.end()) return 0;
  const double link = peaks.link_bytes_per_s > 0 ? cost.wire / peaks.link_bytes_per_s : 0;
  return std::max({cost.bytes / peaks.bytes_per_s, cost.flops / peak->second, link});
}

double wire_of_device(const Device& device, const ResolvedCase& resolved, const Choices& choices) {
  const Slot* const comm = resolved.contract->comm();
  if (!comm) return 0;
  if (device.host_memory()) {  // a link between cores exists only in the device's file
    const auto peaks = peaks_of(device.name());
    return peaks && peaks->link_bytes_per_s > 0 ? wire_bytes(resolved, choices) : 0;
  }
  if (ranks_share_devices(device.name(), static_cast<int>(resolved.axes.at(comm->axis)))) return 0;
  return wire_bytes(resolved, choices);
}

namespace {

// The routings in which a case is measured. Uniform comes first, because others are compared with
// it.
std::vector<std::pair<std::string, Case>> routings_of(const Contract& contract, const Case& source,
                                                      const BenchOptions& options) {
  if (contract.comm() || !has_routing(contract) || (!source.contents && options.skew <= 0))
    return {{"", source}};
  std::vector<std::pair<std::string, Case>> out = {{"uniform", with_skew(contract, source, 1)}};
  const double published = source.contents && options.captured_random ? kPublishedSkew : 0;
  const double skew = options.skew > 0 ? options.skew : published;
  if (skew > 1) out.emplace_back("skewed", with_skew(contract, source, skew));
  if (source.contents) out.emplace_back("captured", source);
  return out;
}

const Provider* provider_of(const Plugins& plugins, const BenchRow& row) {
  for (const Provider* p : plugins.of(row.op))
    if (p->plugin == row.provider) return p;
  return nullptr;
}

void bench_case(const Plugins& plugins, const Contract& contract, const Case& source,
                const BenchOptions& options, std::vector<BenchRow>& rows) {
  const auto routings = routings_of(contract, source, options);
  const auto cpu = open_device("cpu");
  Device& device = options.device ? *options.device : *cpu;
  const int64_t memory = (device.host_memory() ? kHostMemory : kDeviceMemory) / 2;
  for (const auto& [routing, routed] : routings) {
    for (auto& row : CaseBench(plugins, contract, routed, options).run()) {
      row.routing = routing;
      const Provider* provider = provider_of(plugins, row);
      if (&routed != &routings[0].second && row.why.empty() && provider) {
        if (options.on_step)
          options.on_step(row.op + ", case " + source.name + ": " + routing + " beside uniform");
        try {
          row.of_uniform = race_routings(*provider, routings[0].second, routed, device, memory,
                                         row.calls, plugins, options);
        } catch (const Error& error) {
          row.note = std::string("not raced beside uniform routing: ") + error.what();
        }
      }
      if (options.on_row) options.on_row(row);
      rows.push_back(std::move(row));
    }
  }
}

}  // namespace

std::vector<BenchRow> bench_op(const Plugins& plugins, const std::string& op,
                               const BenchOptions& options) {
  const Contract& contract = plugins.catalog().at(op);
  std::vector<BenchRow> rows;
  for (const Case& source : options.captured ? *options.captured : contract.cases) {
    if (!options.captured && source.size != options.size) continue;
    if (options.comm && contract.comm() &&
        source.axes.at(contract.comm()->axis) != options.comm->size())
      continue;
    if (!options.cases.empty() &&
        std::find(options.cases.begin(), options.cases.end(), source.name) == options.cases.end())
      continue;
    bench_case(plugins, contract, source, options, rows);
  }
  return rows;
}

}  // namespace fk
