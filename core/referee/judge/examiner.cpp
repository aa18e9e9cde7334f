// SPDX-License-Identifier: Apache-2.0
#include "core/referee/judge/examiner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/counted.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/cases/routing.hpp"
#include "core/referee/bench.hpp"
#include "core/runtime/peaks.hpp"
#include "core/tensor/random.hpp"
#include "core/worker/channel.hpp"

namespace fk {

namespace {

// What a core and a memory channel do at least: only the number of sets follows from it.
constexpr int64_t kEvictBytes = int64_t{16} << 20;  // line by line; of more, others are read
constexpr size_t kAcceptedMax = 3;  // answers of one side that differ and are all right
constexpr double kFlopsPerSecond = 4e9, kBytesPerSecond = 8e9, kCallSeconds = 0.5e-6;

bool equal(const CaseValues& a, const CaseValues& b) {
  for (const auto& [name, tensors] : a) {
    const auto it = b.find(name);
    if (it == b.end() || it->second.size() != tensors.size()) return false;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor &x = tensors[i], &y = it->second[i];
      if (x.bytes() != y.bytes()) return false;
      if (x.bytes() && std::memcmp(x.data(), y.data(), static_cast<size_t>(x.bytes())) != 0)
        return false;
    }
  }
  return true;
}

CaseValues outputs_of(const CaseFrames& frames) {
  CaseValues out;
  for (const CaseField* field : frames.resolved().written())
    for (int64_t i = 0; i < field->entries; ++i)
      out[field->slot->name].push_back(frames.contents(field->slot->name, i));
  return out;
}

// What has a meaning: beyond a count anything may stand.
CaseValues valid_parts(const ResolvedCase& resolved, const CaseValues& outputs) {
  CaseValues out;
  for (const CaseField* field : resolved.written()) {
    for (int64_t i = 0; i < field->entries; ++i)
      out[field->slot->name].push_back(
          valid_part(extent_of(resolved, *field, i, outputs),
                     outputs.at(field->slot->name)[static_cast<size_t>(i)], false));
  }
  return out;
}

}  // namespace

Layout exam_layout(const Variant& variant, int set) {
  Layout layout;
  layout.interleaved = variant.layout == Variant::Layout::interleaved;
  layout.shift = set;
  layout.at_end = set % 2 == 1;  // what reads on past an end is stopped in every other set
  return layout;
}

Examiner::Examiner(const Contract& contract, AskedCase asked, PosedCase posed, uint64_t seed,
                   ExamOptions options)
    : contract_(contract),
      posed_(std::move(posed)),
      options_(std::move(options)),
      oracles_(Oracles::of(*options_.plugins, contract.op)),
      resolved_(resolve(contract, posed_.source, posed_.variant)) {
  shape_.asked = std::move(asked);
  watch_ = options_.device->stopwatch();
  provider_ = oracle_of(oracles_, options_.device->type(), resolved_, unjudged_);
  if (!provider_) return;
  oracle_ = provider_->plugin;
  make_contents(seed);
  if (!unjudged_.empty()) return;
  skew_ = skew_of(resolved_, contents_[0].inputs).value_or(0);
  try_nulls();
  place();
}

std::vector<std::string> Examiner::generated() const {
  std::vector<std::string> out;
  if (!posed_.source.contents) return out;
  for (const auto& f : resolved_.fields)
    if (f.present && (f.slot->section == SectionId::weights || f.slot->role != Role::out) &&
        !posed_.source.contents->count(f.slot->name))
      out.push_back(f.slot->name);
  return out;
}

const char* Examiner::family_name_of(size_t content) const {
  return family_name(contents_.at(content).family);
}

double Examiner::flops() const { return static_cast<double>(contract_.flops.eval(resolved_.axes)); }

double Examiner::roofline_s() const {
  const auto peaks = peaks_of(options_.device->name());
  return peaks ? fk::roofline_s(*peaks, resolved_, bytes_, flops()) : 0;
}

double Examiner::floor_s() const {
  auto peaks = peaks_of(options_.device->name());
  if (!peaks) return 0;
  // What the last cache holds may not have to be read, nor the weights of experts without a token.
  const double cached = has_routing(contract_) ? bytes_ : static_cast<double>(peaks->cache_bytes);
  // Tensor cores reach float32 in three products of a lower class.
  const auto low = peaks->flops_per_s.find(DType::bf16);
  const auto exact = peaks->flops_per_s.find(DType::f32);
  if (low != peaks->flops_per_s.end() && exact != peaks->flops_per_s.end())
    exact->second = std::max(exact->second, low->second / 3);
  return fk::roofline_s(*peaks, resolved_, std::max(0.0, bytes_ - cached), flops());
}

bool Examiner::has_plan() const { return !contract_.section(SectionId::plan).empty(); }

CheckOptions Examiner::oracle_options() const {
  CheckOptions check;
  check.device = options_.device;
  check.threads = options_.threads;
  check.plugins = options_.plugins;
  return check;
}

AskReference Examiner::asker(const Provider& oracle) {
  return [this, &oracle](const CaseValues& values) {
    std::string why;
    CaseValues out = reference_outputs(oracle, resolved_, posed_.source, posed_.variant, values,
                                       oracle_options(), why);
    if (!why.empty() && unjudged_.empty()) unjudged_ = why;
    return out;
  };
}

void Examiner::try_nulls() {
  // Other shapes are there for their rules: of one row or none, a wrong answer is often a right
  // one.
  if (!posed_.variant.axes.empty() || !posed_.variant.listed.empty()) return;
  static std::map<std::string, std::vector<TriedFake>> known;  // a process has one set of contracts
  const std::string key = shape_.asked.key();
  const auto found = known.find(key);
  if (found != known.end()) {
    nulls_ = found->second;
    return;
  }
  Content& first = contents_[0];
  first.inputs.merge(weights_);
  const auto ask = [this](const ResolvedCase& call, const Variant& variant,
                          const CaseValues& values) {
    std::string why;
    return reference_outputs(*provider_, call, posed_.source, variant, values, oracle_options(),
                             why);
  };
  nulls_ = try_fakes(resolved_, posed_.source, posed_.variant, first.inputs, first.want, ask,
                     options_.gate_s);
  take_weights(first.inputs);
  known.emplace(key, nulls_);
}

// The oracle wants weights and inputs together; they are large, so they are lent and taken back.
void Examiner::take_weights(CaseValues& values) {
  for (const auto& slot : contract_.section(SectionId::weights))
    if (auto node = values.extract(slot.name)) weights_.insert(std::move(node));
}

// Ordinary contents twice, then one of every family that fits in an order that the seed chooses,
// then more of all of them while time is left.
void Examiner::make_contents(uint64_t seed) {
  std::vector<Family> families{Family::ordinary, Family::ordinary};
  std::vector<Family> others;
  for (const Family family : all_families()) {
    if (family == Family::ordinary) continue;
    if (!options_.families.empty() && std::find(options_.families.begin(), options_.families.end(),
                                                family_name(family)) == options_.families.end())
      continue;
    if (std::string why = family_unfit(resolved_, family); !why.empty())
      left_out_.emplace_back(family_name(family), std::move(why));
    else
      others.push_back(family);
  }
  Random random(seed_of("order of families", seed));
  for (size_t i = others.size(); i > 1; --i)
    std::swap(others[i - 1],
              others[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i)))]);
  families.insert(families.end(), others.begin(), others.end());
  const double start = now_seconds();
  for (int i = 0; i < options_.contents_max && unjudged_.empty(); ++i) {
    if (contents_.size() >= 2 && now_seconds() - start > options_.seconds) break;
    // Later rounds are ordinary every other time.
    const auto turn = static_cast<size_t>(i);
    const Family family = turn < families.size() ? families[turn]
                          : turn % 2             ? Family::ordinary
                                                 : families[static_cast<size_t>(random.integer(
                                                       0, static_cast<int64_t>(families.size())))];
    if (!make_content(seed_of("contents " + std::to_string(i), seed), family))
      std::erase(families, family);
  }
}

bool Examiner::make_content(uint64_t seed, Family family) {
  CaseValues values;
  if (contents_.empty()) {
    values = make_inputs(resolved_, seed, options_.threads);
    take_weights(values);
  } else {
    values = make_forward_inputs(resolved_, seed, options_.threads, family);
  }
  // The oracle wants weights and inputs together; they are large, so they are lent.
  values.merge(weights_);
  CaseValues want = asker(*provider_)(values);
  take_weights(values);
  if (!unjudged_.empty()) return false;
  if (std::string why = family_meaningless(resolved_, family, want); !why.empty()) {
    left_out_.emplace_back(family_name(family), std::move(why));
    return false;
  }
  contents_.push_back({family, std::move(values), std::move(want), nullptr, {}, {}});
  return true;
}

void Examiner::place() {
  SharedPlaces one;
  CaseFrames::measure(*options_.device, resolved_, exam_layout(posed_.variant, 0), one);
  const int64_t each = one.read.taken() + one.written.taken();
  bytes_ = static_cast<double>(each);
  if (contract_.bytes) bytes_ = static_cast<double>(contract_.bytes->eval(resolved_.axes));
  const double call = std::max({kCallSeconds, flops() / kFlopsPerSecond, bytes_ / kBytesPerSecond});
  const auto wanted = static_cast<int64_t>(std::ceil(options_.call_s / call));
  const int64_t room = std::max<int64_t>(2, options_.memory / std::max<int64_t>(each, 1));
  shape_.sets =
      static_cast<int>(std::clamp<int64_t>(wanted, 2, std::min<int64_t>(room, options_.sets_max)));
  SharedPlaces all;
  for (int i = 0; i < shape_.sets; ++i)
    CaseFrames::measure(*options_.device, resolved_, exam_layout(posed_.variant, i), all);
  // A call without rows has nothing to share, and a mapping has to have something.
  shape_.read_bytes = std::max<int64_t>(4096, all.read.taken());
  shape_.written_bytes = std::max<int64_t>(4096, all.written.taken());
  const auto share = [&](int64_t bytes, const char* what, Device::Sharing others) {
    return SharedMapping(*options_.device, options_.device->allocate_shared(bytes, what, others),
                         bytes);
  };
  read_ = share(shape_.read_bytes, "inputs", Device::Sharing::read);
  written_ = share(shape_.written_bytes, "outputs", Device::Sharing::write);
  SharedPlaces places{{read_.data(), shape_.read_bytes}, {written_.data(), shape_.written_bytes}};
  CaseValues values = contents_[0].inputs;
  values.merge(weights_);
  for (int i = 0; i < shape_.sets; ++i)
    sets_.push_back(std::make_unique<CaseFrames>(*options_.device, resolved_, values,
                                                 exam_layout(posed_.variant, i), places));
  // Contents lie ready in the device's memory, without weights, which all have in common.
  ResolvedCase inputs = resolved_;
  for (auto& field : inputs.fields) field.present &= field.slot->section != SectionId::weights;
  Layout layout = exam_layout(posed_.variant, 0);
  layout.snapshot = false;
  for (auto& content : contents_)
    content.master = std::make_unique<CaseFrames>(*options_.device, inputs, content.inputs, layout);
  // Where the weights are needed again, for choices that are as right, they come from here.
  take_weights(values);
  dealt_.assign(sets_.size(), 0);
  options_.device->synchronize();
}

void Examiner::deal(const std::vector<int>& sets, const std::vector<int>& contents, Poison poison,
                    bool numbers_only) {
  FK_CHECK(sets.size() == contents.size(), "a content for each set");
  for (size_t i = 0; i < sets.size(); ++i) {
    const auto set = static_cast<size_t>(sets[i]);
    dealt_.at(set) = contents[i];
    sets_[set]->refill(*contents_.at(static_cast<size_t>(contents[i])).master, poison,
                       numbers_only);
  }
  options_.device->synchronize();
}

void Examiner::flush(const std::vector<int>& sets) {
  std::vector<std::span<const std::byte>> all;
  int64_t bytes = 0;
  for (const int set : sets)
    for (const auto& part : sets_.at(static_cast<size_t>(set))->memory()) {
      all.push_back(part);
      bytes += static_cast<int64_t>(part.size());
    }
  bool out = bytes < kEvictBytes;
  for (const auto& part : all)
    out = out && watch_->evict(part.data(), static_cast<int64_t>(part.size()));
  if (!out) watch_->flush();
}

std::vector<Examiner::Finding> Examiner::look(const std::vector<int>& sets, int side) {
  std::vector<Finding> out;
  for (const int set : sets) out.push_back(look_at(set, side));
  return out;
}

Examiner::Finding Examiner::look_at(int set, int side) {
  const CaseFrames& frames = *sets_.at(static_cast<size_t>(set));
  const int index = dealt_[static_cast<size_t>(set)];
  Content& content = contents_[static_cast<size_t>(index)];
  Finding found;
  found.set = set;
  found.content = index;
  if (const auto broken = frames.broken(); !broken.empty()) {
    found.ok = false;
    found.rule = broken[0].rule;
    found.text = broken[0].text;
    return found;
  }
  // On a device outputs are downloaded once for each answer that is right.
  std::optional<uint64_t> print;
  auto& prints = content.prints[side];
  if (!options_.device->host_memory()) print = frames.written_print();
  if (const auto it = std::find(prints.begin(), prints.end(), print.value_or(0));
      print && it != prints.end()) {
    found.changed = it != prints.begin();
    return found;
  }
  CaseValues got = outputs_of(frames);
  CaseValues valid = valid_parts(resolved_, got);
  auto& accepted = content.accepted[side];
  for (size_t i = 0; i < accepted.size(); ++i) {
    if (!equal(accepted[i], valid)) continue;
    found.changed = i > 0;
    return found;
  }
  // Lent as above: a choice that is as right is asked of the oracle.
  content.inputs.merge(weights_);
  Comparison compared = compare_outputs(resolved_, content.inputs, got, content.want, kMostElements,
                                        asker(*provider_));
  take_weights(content.inputs);
  found.ok = compared.ok;
  found.worst = compared.worst;
  found.text = std::move(compared.text);
  // Ordinary contents are never excused.
  if (!compared.undecided.empty() && content.family != Family::ordinary) {
    found.ok = true;
    found.worst = 0;
    found.undecided = std::move(compared.undecided);
    return found;
  }
  if (found.ok) {
    found.changed = !accepted.empty();
    if (accepted.size() < kAcceptedMax) {
      accepted.push_back(std::move(valid));
      if (print) prints.push_back(*print);
    }
    return found;
  }
  for (const auto& other : contents_)
    for (const auto& [who, answers] : other.accepted)
      for (const auto& answer : answers) found.stale |= &other != &content && equal(answer, valid);
  return found;
}

}  // namespace fk
