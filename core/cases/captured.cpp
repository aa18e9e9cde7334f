// SPDX-License-Identifier: Apache-2.0
#include "core/cases/captured.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/inputs.hpp"
#include "core/cases/recorded_bounds.hpp"
#include "core/exec/recorder.hpp"

namespace fk {

namespace {

constexpr int64_t kAxisMax = int64_t{1} << 40;

// A list of shapes, one for every entry of a list of tensors.
std::vector<Shape> shapes_of(const Config& node, const std::string& field) {
  const Json& all = node.json().at(field);
  std::vector<Shape> out;
  if (!all.is_array()) node.fail_at(field, "expected a list of shapes");
  for (const auto& one : all) {
    Shape& shape = out.emplace_back();
    if (!one.is_array()) node.fail_at(field, "expected a list of shapes");
    for (const auto& extent : one) {
      if (!extent.is_number_integer()) node.fail_at(field, "expected whole numbers in a shape");
      shape.push_back(extent.get<int64_t>());
    }
  }
  return out;
}

int64_t extent(const Config& node, const std::string& key) {
  const int64_t value = node.integer(key);
  if (value < 0 || value > kAxisMax) node.fail_at(key, "is no size");
  return value;
}

const Slot& field_of(const Config& node, const Contract& c, const std::string& name) {
  const Slot* slot = c.find(name);
  if (!slot || !slot->is_tensor())
    node.fail_at(name, "is no tensor of " + c.op, did_you_mean(name, c.field_names()));
  return *slot;
}

void read_sizes(const Config& node, const Contract& c, Case& out) {
  const auto letter = [&](const Config& from, const std::string& key) {
    for (const auto& [axis, meaning] : c.axes)
      if (axis == key) return;
    from.fail_at(key, "is no axis of " + c.op);
  };
  const Config axes = node.child("axes");
  for (const auto& key : axes.keys()) {
    letter(axes, key);
    out.axes[key] = extent(axes, key);
  }
  if (!node.has("listed")) return;
  const Config listed = node.child("listed");
  for (const auto& key : listed.keys()) {
    letter(listed, key);
    out.listed[key] = listed.integers(key);
    for (const int64_t value : out.listed[key])
      if (value < 0 || value > kAxisMax) listed.fail_at(key, "is no size");
  }
}

void read_scalars(const Config& node, const Contract& c, Case& out) {
  const Config init = node.child("init");
  for (const auto& key : init.keys()) {
    const Slot* slot = c.find(SectionId::init, key);
    if (!slot) init.fail_at(key, "is no constructor value of " + c.op);
    out.init[key] = init.text(key);
    const bool number = slot->kind == SlotKind::integer || slot->kind == SlotKind::number;
    const double value = number ? std::strtod(out.init[key].c_str(), nullptr) : 0;
    if (number && ((slot->min && value < *slot->min) || (slot->max && value > *slot->max)))
      init.fail_at(key, "is outside the contract's range");
  }
  for (const auto& slot : c.section(SectionId::init))
    if (slot.required() && !out.init.count(slot.name)) init.fail_at(slot.name, "is missing");
  const Config scalars = node.child("scalars");
  for (const auto& key : scalars.keys()) {
    const Slot* slot = c.find(SectionId::forward, key);
    if (!slot || slot->kind != SlotKind::integer) scalars.fail_at(key, "is no bound of " + c.op);
    out.scalars[key] = extent(scalars, key);
  }
}

void read_fields(const Config& node, const Contract& c, Case& out) {
  for (const auto& name : node.texts("with")) {
    field_of(node, c, name);
    out.with.push_back(name);
  }
  for (const auto& name : node.texts("strided")) {
    field_of(node, c, name);
    out.strided[name] = 0;
  }
  const Config dtypes = node.child("dtypes");
  for (const auto& key : dtypes.keys()) {
    field_of(dtypes, c, key);
    out.dtypes[key] = dtype_from_name(dtypes.text(key), dtypes.where());
  }
}

}  // namespace

Captured Captured::open(const std::filesystem::path& folder, const Catalog& catalog) {
  const auto path = folder / kCaptureIndex;
  if (!std::filesystem::exists(path))
    fail(folder.string(), std::string("there is no ") + kCaptureIndex,
         "a folder that fk-host record has made");
  const Config index = Config::load(path);
  Captured out;
  out.where_ = path.string();
  out.catalog_ = &catalog;
  if (const std::string schema = index.text("schema"); schema != kCaptureSchema)
    index.fail_at("schema", "is `" + excerpt(schema) + "`, this host reads " + kCaptureSchema);
  out.scenario_ = index.text("scenario");
  out.profile_ = index.text("profile");
  out.random_ = index.child("weights").boolean("random");
  for (const auto& file : index.texts("files")) {
    if (file.find('/') != std::string::npos) index.fail_at("files", "a name with a folder in it");
    out.files_.push_back(SafeTensors::open(folder / file));
  }
  for (const auto& node : index.children("cases")) {
    const Contract& contract = catalog.at(node.text("op"));
    if (node.integer("revision") != contract.revision)
      node.fail_at("revision", "this host has revision " + std::to_string(contract.revision) +
                                   " of " + contract.op);
    Entry entry = out.read_case(node, contract);
    out.read_tensors(node, contract, entry);
    out.routed_ |= entry.tensors.count("topk_ids") || entry.tensors.count("expert_offsets");
    out.entries_[contract.op].push_back(std::move(entry));
  }
  return out;
}

Captured::Entry Captured::read_case(const Config& node, const Contract& contract) const {
  Entry entry;
  Case& c = entry.source;
  c.size = "captured";
  c.where = node.where();
  c.name = node.text("name");
  c.from = scenario_;
  read_sizes(node, contract, c);
  read_scalars(node, contract, c);
  read_fields(node, contract, c);
  const auto names = case_names(contract.op);
  if (std::find(names.begin(), names.end(), c.name) != names.end())
    node.fail_at("name", "is there twice for " + contract.op);
  return entry;
}

// Error unless the case has the recorded sizes, and contents for all whole numbers.
void Captured::read_tensors(const Config& node, const Contract& contract, Entry& entry) const {
  const ResolvedCase resolved = resolve(contract, entry.source, {});
  contract.flops.eval(resolved.axes);
  const Config shapes = node.child("shapes"), tensors = node.child("tensors");
  for (const auto& key : shapes.keys()) field_of(shapes, contract, key);
  for (const auto& key : tensors.keys())
    if (!field_of(tensors, contract, key).is_read()) tensors.fail_at(key, "is an output");
  for (const auto& field : resolved.fields) {
    const std::string& name = field.slot->name;
    if (!field.present) {
      if (shapes.has(name) || tensors.has(name)) node.fail_at("with", "lacks " + name);
      continue;
    }
    if (!shapes.has(name)) shapes.fail_at(name, "is missing");
    const auto seen = shapes_of(shapes, name);
    if (static_cast<int64_t>(seen.size()) != field.entries)
      shapes.fail_at(name, "there are " + std::to_string(field.entries) + " by the other values");
    for (int64_t i = 0; i < field.entries; ++i)
      if (seen[static_cast<size_t>(i)] != field.shape_of(i))
        shapes.fail_at(name, "is " + shape_text(seen[static_cast<size_t>(i)]) + ", but " +
                                 shape_text(field.shape_of(i)) + " by the other values");
    const bool numbers = field.slot->section == SectionId::forward && field.slot->is_read() &&
                         !is_float(field.dtype);
    if (!tensors.has(name)) {
      if (numbers && field.entries) tensors.fail_at(name, "whole numbers are not made up");
      continue;
    }
    const auto names = tensors.texts(name);
    if (names.size() != seen.size()) tensors.fail_at(name, "one tensor for each shape is needed");
    for (int64_t i = 0; i < field.entries; ++i) {
      const StoredTensor* stored = find(names[static_cast<size_t>(i)]);
      if (!stored) tensors.fail_at(name, "is in none of the files");
      if (stored->dtype != field.dtype || stored->shape != field.shape_of(i))
        tensors.fail_at(name, "is stored as " + std::string(fk::name(stored->dtype)) + " " +
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
