// SPDX-License-Identifier: Apache-2.0
#include "core/cases/captured.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/fields.hpp"
#include "core/base/json.hpp"
#include "core/base/text.hpp"
#include "core/cases/inputs.hpp"
#include "core/cases/recorded_bounds.hpp"
#include "core/exec/recorder.hpp"

namespace fk {

namespace {

constexpr int64_t kAxisMax = int64_t{1} << 40;

[[noreturn]] void fail_in(const std::string& where, const std::string& key, const std::string& what,
                          const std::string& hint = "") {
  fail(where, "`" + excerpt(key) + "`: " + what, hint);
}

const Slot& field_of(const Contract& c, const std::string& name, const std::string& where) {
  const Slot* slot = c.find(name);
  if (!slot || !slot->is_tensor())
    fail_in(where, name, "is no tensor of " + c.op, did_you_mean(name, c.field_names()));
  return *slot;
}

void need_size(int64_t value, const std::string& key, const std::string& where) {
  if (value < 0 || value > kAxisMax) fail_in(where, key, "is no size");
}

void read_sizes(const RecordedCase& recorded, const Contract& c, Case& out) {
  const auto letter = [&](const std::string& key) {
    if (std::ranges::none_of(c.axes, [&](const auto& axis) { return axis.first == key; }))
      fail_in(out.where, key, "is no axis of " + c.op);
  };
  for (const auto& [key, value] : recorded.axes) {
    letter(key);
    need_size(value, key, out.where);
    out.axes[key] = value;
  }
  for (const auto& [key, values] : recorded.listed) {
    letter(key);
    for (const int64_t value : values) need_size(value, key, out.where);
    out.listed[key] = values;
  }
}

void read_scalars(const RecordedCase& recorded, const Contract& c, Case& out) {
  for (const auto& [key, text] : recorded.init) {
    const Slot* slot = c.find(SectionId::init, key);
    if (!slot) fail_in(out.where, key, "is no constructor value of " + c.op);
    out.init[key] = text;
    const bool number = slot->kind == SlotKind::integer || slot->kind == SlotKind::number;
    const double value = number ? std::strtod(text.c_str(), nullptr) : 0;
    if (number && ((slot->min && value < *slot->min) || (slot->max && value > *slot->max)))
      fail_in(out.where, key, "is outside the contract's range");
  }
  for (const auto& slot : c.section(SectionId::init))
    if (slot.required() && !out.init.count(slot.name)) fail_in(out.where, slot.name, "is missing");
  for (const auto& [key, value] : recorded.scalars) {
    const Slot* slot = c.find(SectionId::forward, key);
    if (!slot || slot->kind != SlotKind::integer) fail_in(out.where, key, "is no bound of " + c.op);
    need_size(value, key, out.where);
    out.scalars[key] = value;
  }
}

void read_fields_of(const RecordedCase& recorded, const Contract& c, Case& out) {
  for (const auto& name : recorded.with) {
    field_of(c, name, out.where);
    out.with.push_back(name);
  }
  for (const auto& name : recorded.strided) {
    field_of(c, name, out.where);
    out.strided[name] = 0;
  }
  for (const auto& [name, dtype] : recorded.dtypes) {
    field_of(c, name, out.where);
    out.dtypes[name] = dtype_from_name(dtype, out.where);
  }
}

}  // namespace

Captured Captured::open(const std::filesystem::path& folder, const Catalog& catalog) {
  const auto path = folder / kCaptureIndex;
  if (!std::filesystem::exists(path))
    fail(folder.string(), std::string("there is no ") + kCaptureIndex,
         "a folder that fk-host record has made");
  const Config document = Config::load(path);
  if (const std::string schema = document.text("schema"); schema != CaptureIndex::kSchema)
    document.fail_at("schema",
                     "is `" + excerpt(schema) + "`, this host reads " + CaptureIndex::kSchema);
  Captured out;
  out.where_ = path.string();
  out.catalog_ = &catalog;
  const auto index = from_fields<CaptureIndex>(document.json(), out.where_, kForeignMessage);
  out.scenario_ = index.scenario;
  out.profile_ = index.profile;
  out.random_ = index.weights.random;
  for (const auto& file : index.files) {
    if (file.find('/') != std::string::npos)
      fail_in(out.where_, "files", "a name with a folder in it");
    out.files_.push_back(SafeTensors::open(folder / file));
  }
  for (size_t i = 0; i < index.cases.size(); ++i) {
    const RecordedCase& recorded = index.cases[i];
    const std::string where = out.where_ + ": cases[" + std::to_string(i) + "]";
    const Contract& contract = catalog.at(recorded.op);
    if (recorded.revision != contract.revision)
      fail_in(where, "revision",
              "this host has revision " + std::to_string(contract.revision) + " of " + contract.op);
    Entry entry = out.read_case(recorded, where, contract);
    out.read_tensors(recorded, contract, entry);
    out.routed_ |= entry.tensors.count("topk_ids") || entry.tensors.count("expert_offsets");
    out.entries_[contract.op].push_back(std::move(entry));
  }
  return out;
}

Captured::Entry Captured::read_case(const RecordedCase& recorded, const std::string& where,
                                    const Contract& contract) const {
  Entry entry;
  Case& c = entry.source;
  c.size = "captured";
  c.where = where;
  c.name = recorded.name;
  c.from = scenario_;
  read_sizes(recorded, contract, c);
  read_scalars(recorded, contract, c);
  read_fields_of(recorded, contract, c);
  if (contains(case_names(contract.op), c.name))
    fail_in(where, "name", "is there twice for " + contract.op);
  return entry;
}

// Error unless the case has the recorded sizes, and contents for all whole numbers.
void Captured::read_tensors(const RecordedCase& recorded, const Contract& contract,
                            Entry& entry) const {
  const std::string& where = entry.source.where;
  const ResolvedCase resolved = resolve(contract, entry.source, {});
  contract.flops.eval(resolved.axes);
  for (const auto& [key, shapes] : recorded.shapes) field_of(contract, key, where);
  for (const auto& [key, names] : recorded.tensors)
    if (!field_of(contract, key, where).is_read()) fail_in(where, key, "is an output");
  for (const auto& field : resolved.fields) {
    const std::string& name = field.slot->name;
    const auto shapes = recorded.shapes.find(name);
    const auto tensors = recorded.tensors.find(name);
    const bool stored_here = tensors != recorded.tensors.end();
    if (!field.present) {
      if (shapes != recorded.shapes.end() || stored_here) fail_in(where, "with", "lacks " + name);
      continue;
    }
    if (shapes == recorded.shapes.end()) fail_in(where, name, "has no shape");
    const std::vector<Shape>& seen = shapes->second;
    if (static_cast<int64_t>(seen.size()) != field.entries)
      fail_in(where, name, "there are " + std::to_string(field.entries) + " by the other values");
    for (int64_t i = 0; i < field.entries; ++i)
      if (seen[static_cast<size_t>(i)] != field.shape_of(i))
        fail_in(where, name,
                "is " + shape_text(seen[static_cast<size_t>(i)]) + ", but " +
                    shape_text(field.shape_of(i)) + " by the other values");
    const bool numbers = field.slot->section == SectionId::forward && field.slot->is_read() &&
                         !is_float(field.dtype);
    if (!stored_here) {
      if (numbers && field.entries) fail_in(where, name, "whole numbers are not made up");
      continue;
    }
    const auto& names = tensors->second;
    if (names.size() != seen.size()) fail_in(where, name, "one tensor for each shape is needed");
    for (int64_t i = 0; i < field.entries; ++i) {
      const StoredTensor* stored = find(names[static_cast<size_t>(i)]);
      if (!stored) fail_in(where, name, "is in none of the files");
      if (stored->dtype != field.dtype || stored->shape != field.shape_of(i))
        fail_in(where, name,
                "is stored as " + std::string(fk::name(stored->dtype)) + " " +
                    shape_text(stored->shape));
    }
    entry.tensors[name] = names;
  }
}

const StoredTensor* Captured::find(const std::string& name) const {
  for (const auto& file : files_)
    if (const StoredTensor* tensor = file.find(name)) return tensor;
  return nullptr;
}

std::vector<std::string> Captured::ops() const {
  std::vector<std::string> out;
  for (const auto& [op, entries] : entries_) out.push_back(op);
  return out;
}

std::vector<std::string> Captured::case_names(const std::string& op) const {
  std::vector<std::string> out;
  if (const auto it = entries_.find(op); it != entries_.end())
    for (const auto& entry : it->second) out.push_back(entry.source.name);
  return out;
}

std::vector<Case> Captured::cases(const std::string& op) const {
  std::vector<Case> out;
  const auto it = entries_.find(op);
  if (it == entries_.end()) return out;
  const Contract& contract = catalog_->at(op);
  for (const auto& entry : it->second) {
    auto contents = std::make_shared<std::map<std::string, std::vector<Tensor>>>();
    for (const auto& [field, names] : entry.tensors) {
      for (const auto& name : names) {
        Tensor tensor = find(name)->load();
        if (content_name(tensor.dtype, tensor.shape, tensor.data()) != name)
          fail(find(name)->where, "has other contents than its name says");
        (*contents)[field].push_back(std::move(tensor));
      }
      const auto kept = contents->find(field);
      if (kept != contents->end() && contract.comm() && !contract.find(field)->replicated &&
          is_float(kept->second[0].dtype))
        contents->erase(kept);
    }
    out.push_back(entry.source);
    out.back().contents = std::move(contents);
    out.back().content_names = entry.tensors;
    check_bounds(resolve(contract, out.back(), {}), entry.source.where + ": " + entry.source.name);
  }
  return out;
}

std::string Captured::of_one_rank(const Contract& contract, const Case& source) {
  if (!contract.comm() || !source.contents) return "";
  for (const auto& [field, tensors] : *source.contents)
    if (!contract.find(field)->replicated) return field;
  return "";
}

std::string Captured::origin() const {
  return "captured from " + scenario_ + " (" + profile_ + "), " +
         (!random_  ? "weights of a checkpoint"
          : routed_ ? "random weights, so the routing is random too"
                    : "random weights");
}

}  // namespace fk
