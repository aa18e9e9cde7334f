// SPDX-License-Identifier: Apache-2.0
#include "core/judge/rank_buffers.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"
#include "core/cases/counted.hpp"
#include "core/tensor/compare.hpp"

namespace fk {

namespace {

constexpr size_t kAcceptedMax = 3;  // different right answers that are kept per side

bool equal(const CaseValues& a, const CaseValues& b) {
  for (const auto& [name, tensors] : a) {
    const auto it = b.find(name);
    if (it == b.end() || !std::equal(tensors.begin(), tensors.end(), it->second.begin(),
                                     it->second.end(), same_bytes))
      return false;
  }
  return true;
}

// The outputs with a meaning: bytes beyond a count are arbitrary.
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

Layout case_layout(const Variant& variant, int set) {
  Layout layout;
  layout.interleaved = variant.layout == Variant::Layout::interleaved;
  layout.least_aligned =
      variant.layout == Variant::Layout::padded || variant.layout == Variant::Layout::padded_rows;
  layout.shift = set;
  layout.at_end = set % 2 == 1;  // in every other set a read past the end faults
  return layout;
}

RankBuffers::RankBuffers(Device& device, ResolvedCase resolved, const Variant& variant)
    : device_(device), resolved_(std::move(resolved)), variant_(variant) {}

void RankBuffers::take_weights(CaseValues& values, size_t version) {
  weights_.resize(std::max(weights_.size(), version + 1));
  for (const auto& slot : resolved_.contract->section(SectionId::weights))
    if (auto node = values.extract(slot.name)) weights_[version].insert(std::move(node));
}

void RankBuffers::add(CaseValues inputs, CaseValues want) {
  contents_.push_back({std::move(inputs), std::move(want), nullptr, {}, {}});
}

CaseValues RankBuffers::lend(size_t content) {
  CaseValues out = std::move(contents_.at(content).inputs);
  lend_weights(out, version_of(content));
  return out;
}

void RankBuffers::take_back(size_t content, CaseValues values) {
  take_weights(values, version_of(content));
  contents_.at(content).inputs = std::move(values);
}

void RankBuffers::place(int sets, const SharedPlaces& measured) {
  const auto share = [&](const SharedRegion& region, const char* what, Device::Sharing others) {
    const int64_t bytes = shared_bytes(region);
    return SharedMapping(device_, device_.allocate_with_gaps(bytes, region.gaps(), what, others),
                         bytes);
  };
  read_ = share(measured.read, "inputs", Device::Sharing::read);
  written_ = share(measured.written, "outputs", Device::Sharing::write);
  SharedPlaces places{{read_.data(), shared_bytes(measured.read)},
                      {written_.data(), shared_bytes(measured.written)}};
  // Gigabytes of weights are copied from the host once.
  for (int i = 0; i < sets; ++i) {
    const auto version = version_of(static_cast<size_t>(i));
    const Layout layout = case_layout(variant_, i);
    if (version < sets_.size()) {
      sets_.push_back(std::make_unique<CaseFrames>(*sets_[version], layout, &places));
      continue;
    }
    CaseValues values = contents_[version].inputs;
    lend_weights(values, version);
    sets_.push_back(std::make_unique<CaseFrames>(device_, resolved_, values, layout, &places));
    // Equally right choices need the weights again later; they come from here.
    take_weights(values, version);
  }
  for (auto& content : contents_) content.master = master_of(content.inputs);
}

std::unique_ptr<CaseFrames> RankBuffers::master_of(const CaseValues& inputs) const {
  ResolvedCase read = resolved_;
  for (auto& field : read.fields) field.present &= field.slot->section != SectionId::weights;
  Layout layout = case_layout(variant_, 0);
  layout.snapshot = false;
  return std::make_unique<CaseFrames>(device_, read, inputs, layout);
}

void RankBuffers::replace(size_t content, CaseValues inputs, CaseValues want) {
  take_weights(inputs, version_of(content));
  Content& old = contents_.at(content);
  old = {};  // frees its memory first
  old.inputs = std::move(inputs);
  old.want = std::move(want);
  old.master = master_of(old.inputs);
}

void RankBuffers::deal(int set, int content, Poison poison, bool numbers_only) {
  sets_.at(static_cast<size_t>(set))
      ->refill(*contents_.at(static_cast<size_t>(content)).master, poison, numbers_only);
}

void RankBuffers::buffers(int set, std::vector<const GuardedBuffer*>& out) const {
  for (const GuardedBuffer* b : sets_.at(static_cast<size_t>(set))->buffers()) out.push_back(b);
}

void RankBuffers::memory(int set, std::vector<std::span<const std::byte>>& out) const {
  for (const auto& part : sets_.at(static_cast<size_t>(set))->memory()) out.push_back(part);
}

std::string RankBuffers::differs_from(const RankBuffers& first, int set) const {
  const auto at = static_cast<size_t>(set);
  for (const CaseField* field : resolved_.written()) {
    if (!field->slot->replicated) continue;
    const std::string& name = field->slot->name;
    for (int64_t i = 0; i < field->entries; ++i)
      if (!same_bytes(sets_.at(at)->contents(name, i), first.sets_.at(at)->contents(name, i)))
        return name;
  }
  return "";
}

std::span<const std::byte> RankBuffers::somewhere(int set, size_t bytes,
                                                  std::random_device& anywhere) const {
  const auto all = sets_.at(static_cast<size_t>(set))->written_memory();
  if (all.empty()) return {};
  const auto& part = all[anywhere() % all.size()];
  bytes = std::min(bytes, part.size());
  return part.subspan(anywhere() % (part.size() - bytes + 1), bytes);
}

SetFinding RankBuffers::look(int set, int index, int side, bool ordinary, const AskReference& ask,
                             bool words) {
  const CaseFrames& frames = *sets_.at(static_cast<size_t>(set));
  Content& content = contents_.at(static_cast<size_t>(index));
  SetFinding found;
  found.set = set;
  found.content = index;
  if (const auto broken = frames.broken(); !broken.empty()) {
    found.ok = false;
    found.rule = broken[0].rule;
    found.text = broken[0].text;
    return found;
  }
  // Baselines answer one after the other. Answers of an earlier one are dropped: they are not this
  // one's, and take memory.
  const auto of_another = [&](const auto& known) {
    return side != kCandidateSide && known.first != kCandidateSide && known.first != side;
  };
  std::erase_if(content.accepted, of_another);
  std::erase_if(content.prints, of_another);
  // On a device, outputs are downloaded once per different right answer.
  std::optional<uint64_t> print;
  auto& prints = content.prints[side];
  if (!device_.host_memory()) print = frames.written_print();
  if (const auto it = std::find(prints.begin(), prints.end(), print.value_or(0));
      print && it != prints.end()) {
    found.changed = it != prints.begin();
    return found;
  }
  CaseValues got = frames.written();
  CaseValues valid = valid_parts(resolved_, got);
  auto& accepted = content.accepted[side];
  for (size_t i = 0; i < accepted.size(); ++i) {
    if (!equal(accepted[i], valid)) continue;
    found.changed = i > 0;
    return found;
  }
  // The oracle needs the weights to judge equally right choices.
  const size_t version = version_of(static_cast<size_t>(index));
  lend_weights(content.inputs, version);
  const Comparer comparer(resolved_, content.inputs, content.want, ask);
  Comparison compared = words ? comparer.compare(got) : comparer.look(got, "");
  take_weights(content.inputs, version);
  found.ok = compared.ok;
  found.worst = compared.worst;
  found.text = std::move(compared.text);
  found.field = std::move(compared.field);
  found.wrong = std::move(compared.wrong);
  if (!compared.undecided.empty() && !ordinary) {
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
