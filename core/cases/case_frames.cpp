// SPDX-License-Identifier: Apache-2.0
// Places tensors, builds frames, and finds written elements.
#include "core/cases/case_frames.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/cases/strides.hpp"
#include "core/tensor/compare.hpp"
#include "core/worker/crash.hpp"

namespace fk {

namespace {

bool is_written(const CaseField& f) {
  return f.slot->section == SectionId::forward && f.slot->role != Role::in;
}

// "flat(P,Z)[slot_mapping]" -> 2 axes, slot_mapping
std::pair<size_t, std::string> parse_footprint(const Slot& slot, const std::string& where) {
  const auto open = slot.writes.find('['), close = slot.writes.rfind(']');
  if (!slot.writes.starts_with("flat(") || open == std::string::npos || close < open)
    fail(where, "`writes: " + slot.writes + "` of " + slot.name + " is not a footprint",
         "flat(P,Z)[slot_mapping]");
  const auto axes = split(slot.writes.substr(5, slot.writes.find(')') - 5), ',');
  return {axes.size(), slot.writes.substr(open + 1, close - open - 1)};
}

int64_t promised_alignment(const CaseField& field, const Shape& strides) {
  if (field.slot->section == SectionId::weights) return FK_ALIGNMENT;
  fk_in view{};
  view.ndim = static_cast<int32_t>(strides.size());
  view.dtype.bits = to_dlpack(field.dtype).bits;
  view.strides = strides.data();
  return fk_alignment(&view);
}

}  // namespace

CaseFrames::CaseFrames(Device& device, const ResolvedCase& resolved, const CaseValues& values,
                       Layout layout, SharedPlaces* places)
    : CaseFrames(device, resolved, layout) {
  allocate(places, true);
  fill(values);
  build();
}

CaseFrames::CaseFrames(Device& device, const ResolvedCase& resolved, Layout layout,
                       SharedPlaces& places)
    : CaseFrames(device, resolved, layout) {
  layout_.snapshot = false;
  allocate(&places, false);
  build();
}

void CaseFrames::measure(Device& device, const ResolvedCase& resolved, Layout layout,
                         SharedPlaces& places) {
  for (const auto& s : CaseFrames(device, resolved, layout).storages_) {
    SharedRegion& region = s.written ? places.written : places.read;
    const GuardedBuffer counted(device, region, s.elements * fk::bytes(s.dtype), layout.shift++,
                                layout.at_end, false, s.behind, s.held);
  }
}

CaseFrames::CaseFrames(const CaseFrames& other, Layout layout, SharedPlaces* places)
    : CaseFrames(other.device_, other.resolved_, layout) {
  layout_.snapshot &= places != nullptr;
  allocate(places, true);
  copy_from(other);
  build();
}

void CaseFrames::copy_from(const CaseFrames& other) {
  FK_CHECK(storages_.size() == other.storages_.size() && placed_.size() == other.placed_.size(),
           "a copy is laid out in the same way");
  for (size_t i = 0; i < storages_.size(); ++i) {
    storages_[i].memory->copy_from(*other.storages_[i].memory);
    if (layout_.snapshot) storages_[i].print = other.storages_[i].print;  // of the same bytes
  }
  for (size_t i = 0; layout_.snapshot && i < placed_.size(); ++i)
    placed_[i].initial = other.placed_[i].initial;
}

void CaseFrames::build() {
  build_frames();
  build_plan();
  remember();
  real_before_ = real_;
  views_before_.assign(views_.begin(), views_.end());
  dims_before_.assign(dims_.begin(), dims_.end());
}

void CaseFrames::place(const CaseField& field, int64_t entry, size_t storage, Shape strides,
                       int64_t offset) {
  if (layout_.least_aligned) storages_[storage].behind = promised_alignment(field, strides);
  placed_.push_back({&field, entry, std::move(strides), offset, storage, {}, nullptr, nullptr});
  storages_[storage].written |= is_written(field);
  storages_[storage].weight |= field.slot->section == SectionId::weights;
  storages_[storage].whole = is_written(field) && field.slot->writes.empty() &&
                             storages_[storage].elements == numel(field.shape_of(entry));
  storages_[storage].dtype = field.dtype;
  auto& text = storages_[storage].field;
  text += (text.empty() ? "" : " and ") + field.slot->name;
}

void CaseFrames::place_all() {
  const CaseField* k = resolved_.find("k_cache");
  const CaseField* v = resolved_.find("v_cache");
  const bool pair = layout_.interleaved && k && v && k->strided && v->strided &&
                    k->shape == v->shape && k->entry_shapes == v->entry_shapes &&
                    k->entries == v->entries && k->dtype == v->dtype && k->shape.size() >= 2;
  const auto add = [&](int64_t elements, DType dtype) {
    storages_.emplace_back();
    storages_.back().elements = elements;
    storages_.back().dtype = dtype;
    return storages_.size() - 1;
  };
  for (const auto& field : resolved_.fields) {
    if (!field.present) continue;
    if (pair && &field == v) continue;
    for (int64_t entry = 0; entry < field.entries; ++entry) {
      const Shape& shape = field.shape_of(entry);
      if (pair && &field == k) {
        Shape strides = contiguous_strides(shape);
        const int64_t half = strides[0];
        strides[0] = 2 * half;
        const size_t at = add(2 * half * shape[0], k->dtype);
        place(*k, entry, at, strides, 0);
        place(*v, entry, at, strides, half);
        continue;
      }
      // Wider strides than other tensors of this shape: a kernel that uses another tensor's strides
      // is wrong.
      const auto wider = std::ranges::count_if(placed_, [&](const Placed& p) {
        return p.field != &field && p.field->strided && p.field->shape_of(p.entry) == shape;
      });
      Shape strides = field.strided ? padded_strides(shape, wider, field.dense_rows)
                                    : contiguous_strides(shape);
      if (field.step > 0 && shape.size() > 1) strides[0] = field.step;
      const size_t at = add(reach(shape, strides), field.dtype);
      const int64_t width = fk::bytes(field.dtype);
      for (const HeldElements& part : held_elements(field, shape, strides))
        storages_[at].held.push_back({part.at * width, part.count * width});
      place(field, entry, at, std::move(strides), 0);
    }
  }
}

void CaseFrames::allocate(SharedPlaces* places, bool owner) {
  for (auto& s : storages_) {
    const int64_t size = s.elements * fk::bytes(s.dtype);
    const int shift = layout_.shift++;
    const bool at_end = layout_.at_end;
    if (places)
      s.memory =
          std::make_unique<GuardedBuffer>(device_, s.written ? places->written : places->read, size,
                                          shift, at_end, owner, s.behind, s.held);
    else
      s.memory = std::make_unique<GuardedBuffer>(device_, size, shift, at_end, s.behind, s.held);
    if (s.memory->forbidden()) name_page(s.memory->forbidden(), s.field);
    if (places && !owner && !s.written) name_input(s.memory->data(), size, s.field);
  }
}

void CaseFrames::refill(const CaseFrames& from, Poison poison, bool numbers_only) {
  size_t next = 0;
  for (size_t i = 0; i < storages_.size(); ++i) {
    Storage& s = storages_[i];
    if (s.weight) continue;
    FK_CHECK(next < from.storages_.size(), "the same case without weights");
    const Storage& other = from.storages_[next++];
    const bool read = std::any_of(placed_.begin(), placed_.end(), [&](const Placed& p) {
      return p.storage == i && p.field->slot->role != Role::out;
    });
    s.print.reset();
    if (!read || (numbers_only && is_float(s.dtype))) {
      s.memory->poison(poison);
      continue;
    }
    s.memory->copy_from(*other.memory);
    if (s.written || numbers_only || !layout_.snapshot) continue;
    if (!other.print) other.print = other.memory->print();
    s.print = other.print;
  }
  if (!numbers_only) remember();
}

void CaseFrames::refill(const CaseValues& values) {
  fill(values);
  for (Storage& s : storages_) s.print.reset();
  refresh_plan();
  remember();
}

std::vector<std::span<const std::byte>> CaseFrames::memory(bool written_only) const {
  std::vector<std::span<const std::byte>> out;
  for (const auto& s : storages_)
    if (!written_only || (s.written && s.memory->bytes() > 0))
      for (const auto part : s.memory->parts()) out.emplace_back(part);
  return out;
}

std::optional<uint64_t> CaseFrames::written_print() const {
  for (const auto& s : storages_)
    if (s.written && !s.whole) return std::nullopt;
  return writable_print();
}

void CaseFrames::fill(const CaseValues& values) {
  for (auto& s : storages_) s.memory->poison(layout_.poison);
  for (auto& p : placed_) {
    if (is_written(*p.field) && p.field->slot->role == Role::out) continue;
    const auto found = values.find(p.field->slot->name);
    FK_CHECK(found != values.end() && static_cast<int64_t>(found->second.size()) > p.entry,
             "a field that is read has contents");
    const Tensor& given = found->second[static_cast<size_t>(p.entry)];
    if (given.shape != contents_shape(*p.field, p.entry))
      fail("contents", "`" + p.field->slot->name + "` has the shape " + shape_text(given.shape) +
                           " instead of " + shape_text(contents_shape(*p.field, p.entry)));
    if (!is_written(*p.field)) {
      write(p, given);
      continue;
    }
    p.initial = given.to(p.field->dtype);
    write(p, p.initial);
  }
}

void CaseFrames::write(const Placed& p, const Tensor& dense) {
  if (!dense.numel()) return;
  const auto width = static_cast<size_t>(fk::bytes(p.field->dtype));
  GuardedBuffer& memory = *storages_[p.storage].memory;
  const auto* from = static_cast<const std::byte*>(dense.data());
  const bool held = !storages_[p.storage].held.empty();
  if (!held && p.strides == contiguous_strides(dense.shape)) {
    memory.write(p.offset * static_cast<int64_t>(width), dense, p.field->dtype);
    return;
  }
  if (dense.dtype != p.field->dtype) return write(p, dense.to(p.field->dtype));
  if (held) {
    const auto size = static_cast<int64_t>(width);
    return each_held_run(*p.field, dense.shape, p.strides,
                         [&](int64_t flat, int64_t offset, int64_t n) {
                           memory.write((p.offset + offset) * size, from + flat * size, n * size);
                         });
  }
  // Bytes in the gaps stay.
  std::vector<std::byte> all(static_cast<size_t>(memory.bytes()));
  memory.read(all.data(), 0, memory.bytes());
  std::byte* to = all.data() + static_cast<size_t>(p.offset) * width;
  each_run(dense.shape, p.strides, [&](int64_t flat, int64_t offset, int64_t n) {
    std::memcpy(to + static_cast<size_t>(offset) * width, from + static_cast<size_t>(flat) * width,
                static_cast<size_t>(n) * width);
  });
  memory.write(0, all.data(), memory.bytes());
}

fk_in* CaseFrames::view(const Placed& p, bool real) {
  const auto& f = *p.field;
  const int64_t width = fk::bytes(f.dtype);
  const Shape& shape = dims_.emplace_back(f.shape_of(p.entry));
  const int64_t elements = reach(shape, p.strides);
  const Shape& strides = dims_.emplace_back(p.strides);
  const auto type = to_dlpack(f.dtype);
  fk_in v{};
  if (const auto& memory = storages_[p.storage].memory; real && elements && memory)
    v.data = memory->data() + p.offset * width;
  FK_CHECK(reinterpret_cast<intptr_t>(v.data) % promised_alignment(f, p.strides) == 0,
           "a view begins where its strides promise");
  v.device_type = device_.type();
  v.device_id = device_.id();
  v.ndim = static_cast<int32_t>(shape.size());
  v.dtype = {type.code, type.bits, 1};
  v.shape = shape.data();
  v.strides = strides.data();
  v.nbytes = elements * width;
  return &views_.emplace_back(v);
}

fk_slot CaseFrames::tensor_slot(const CaseField& field, bool real) {
  fk_slot slot{};
  if (!field.present) return slot;
  std::vector<const fk_in*> items;
  for (auto& p : placed_) {
    if (p.field != &field) continue;
    fk_in*& made = real ? p.real : p.meta;
    made = view(p, real);
    items.push_back(made);
  }
  if (field.slot->list.empty()) {
    slot.p = items[0];
    return slot;
  }
  const auto& kept = list_items_.emplace_back(std::move(items));
  slot.p = &lists_.emplace_back(fk_in_list{static_cast<int64_t>(kept.size()), kept.data()});
  return slot;
}

void CaseFrames::build_frames() {
  for (const bool real : {true, false}) {
    Frames& frames = real ? real_ : meta_;
    frames.init = resolved_.init;
    frames.forward = resolved_.scalars;
    frames.weights.resize(resolved_.contract->section(SectionId::weights).size());
    for (const auto& field : resolved_.fields) {
      auto& into = field.slot->section == SectionId::weights ? frames.weights : frames.forward;
      into[static_cast<size_t>(field.slot->index)] = tensor_slot(field, real);
    }
  }
}

Frames CaseFrames::prepare_frames(const CaseFrames* larger) const {
  Frames frames = real_;
  frames.forward = larger ? larger->meta_.forward : meta_.forward;
  return frames;
}

void CaseFrames::remember() {
  if (!layout_.snapshot) return;
  for (auto& s : storages_) {
    if (!s.written) {
      if (!s.print) s.print = s.memory->print();
    } else if (!s.whole) {
      std::vector<std::byte> keep;
      const auto now = s.memory->held_bytes(keep);
      s.before.assign(now.begin(), now.end());
    }
  }
}

void CaseFrames::restore(Poison poison) {
  for (auto& s : storages_)
    if (s.written) s.memory->poison(poison);
  for (const auto& p : placed_) {
    if (!storages_[p.storage].written || p.field->slot->role == Role::out) continue;
    FK_CHECK(is_written(*p.field), "an input shares no memory with what is written");
    write(p, p.initial);
  }
  remember();
}

const CaseFrames::Placed& CaseFrames::at(const CaseField& field, int64_t entry) const {
  for (const auto& p : placed_)
    if (p.field->slot == field.slot && p.entry == entry) return p;
  FK_CHECK(false, "a present field is placed");
  std::abort();
}

CaseValues CaseFrames::written() const {
  CaseValues out;
  for (const CaseField* field : resolved_.written())
    for (int64_t i = 0; i < field->entries; ++i)
      out[field->slot->name].push_back(contents(field->slot->name, i));
  return out;
}

Tensor CaseFrames::contents(const std::string& field, int64_t entry) const {
  const CaseField* f = resolved_.find(field);
  FK_CHECK(f, "only present fields have contents");
  const Placed& p = at(*f, entry);
  Tensor out(f->dtype, contents_shape(*f, entry));
  const auto width = static_cast<size_t>(fk::bytes(f->dtype));
  const GuardedBuffer& memory = *storages_[p.storage].memory;
  auto* to = static_cast<std::byte*>(out.data());
  if (!storages_[p.storage].held.empty()) {
    const auto size = static_cast<int64_t>(width);
    each_held_run(*f, out.shape, p.strides, [&](int64_t flat, int64_t offset, int64_t n) {
      memory.read(to + flat * size, (p.offset + offset) * size, n * size);
    });
    return out;
  }
  if (p.strides == contiguous_strides(out.shape)) {
    memory.read(to, p.offset * static_cast<int64_t>(width), out.bytes());
    return out;
  }
  std::vector<std::byte> keep;
  const std::byte* from = memory.host(keep).data() + static_cast<size_t>(p.offset) * width;
  each_run(out.shape, p.strides, [&](int64_t flat, int64_t offset, int64_t n) {
    std::memcpy(to + static_cast<size_t>(flat) * width, from + static_cast<size_t>(offset) * width,
                static_cast<size_t>(n) * width);
  });
  return out;
}

std::vector<uint8_t> CaseFrames::footprint(const CaseField& field, int64_t entry) const {
  const Shape& shape = field.shape_of(entry);
  const auto count = static_cast<size_t>(numel(shape));
  if (!is_written(field)) return std::vector<uint8_t>(count, 0);
  if (field.slot->writes.empty()) return std::vector<uint8_t>(count, 1);
  const auto [axes, index] = parse_footprint(*field.slot, resolved_.contract->where);
  std::vector<uint8_t> mask(count, 0);
  int64_t rows = 1;
  for (size_t d = 0; d < axes; ++d) rows *= shape[d];
  const int64_t row = rows ? static_cast<int64_t>(count) / rows : 0;
  const Tensor list = contents(index);
  for (int64_t i = 0; i < list.numel(); ++i) {
    const auto slot = static_cast<int64_t>(list.at(i));
    if (slot < 0 || slot >= rows) continue;
    std::fill_n(mask.begin() + slot * row, row, uint8_t{1});
  }
  return mask;
}

int64_t CaseFrames::bytes() const {
  int64_t total = 0;
  for (const auto& f : resolved_.fields) {
    const int64_t times =
        is_written(f) && f.slot->role == Role::inout && f.slot->writes.empty() ? 2 : 1;
    for (int64_t entry = 0; f.present && entry < f.entries; ++entry)
      total += times * shape_bytes(f.shape_of(entry), f.dtype);
  }
  return total;
}

std::vector<uint8_t> CaseFrames::writable(size_t storage) const {
  const auto& s = storages_[storage];
  const int64_t width = fk::bytes(s.dtype);
  const auto place_of = [&](int64_t element) {
    return s.memory->place_of(element * width) / width;
  };
  std::vector<uint8_t> mask(static_cast<size_t>(place_of(s.elements)), 0);
  for (const auto& p : placed_) {
    if (p.storage != storage) continue;
    const auto logical = footprint(*p.field, p.entry);
    each_run(p.field->shape_of(p.entry), p.strides, [&](int64_t flat, int64_t offset, int64_t n) {
      const auto from = logical.begin() + flat;
      const auto to = mask.begin() + place_of(p.offset + offset);
      std::transform(from, from + n, to, to, std::bit_or<>());
    });
  }
  return mask;
}

std::vector<CaseFrames::Broken> CaseFrames::broken() const {
  std::vector<Broken> out;
  for (size_t i = 0; i < storages_.size(); ++i) {
    const auto& s = storages_[i];
    if (const std::string found = s.memory->damage(); !found.empty())
      out.push_back({"guard", s.field + ": " + found});
    if (!layout_.snapshot) continue;
    if (!s.written) {
      if (s.print && s.memory->print() != *s.print)
        out.push_back({"input", s.field + " was written, but it is read only"});
      continue;
    }
    if (s.whole) continue;
    std::vector<std::byte> keep;
    const auto now = s.memory->held_bytes(keep);
    if (s.before.size() != now.size()) continue;
    const auto width = static_cast<size_t>(fk::bytes(s.dtype)), elements = now.size() / width;
    const auto same = [&](size_t from, size_t n) {
      return std::memcmp(&s.before[from * width], &now[from * width], n * width) == 0;
    };
    // Large parts are compared first: most of a cache is unchanged, and single elements are slow to
    // compare.
    constexpr size_t kTogether = 256;
    std::vector<uint8_t> mask;
    int64_t count = 0, first = -1;
    for (size_t from = 0; from < elements; from += kTogether) {
      const size_t n = std::min(kTogether, elements - from);
      if (same(from, n)) continue;
      if (mask.empty()) mask = writable(i);
      for (size_t e = from; e < from + n; ++e) {
        if (mask[e] || same(e, 1)) continue;
        if (first < 0) first = static_cast<int64_t>(e);
        ++count;
      }
    }
    if (count) {
      out.push_back(
          {"footprint", s.field + ": " + std::to_string(count) +
                            " elements outside of the contract's footprint were written, the "
                            "first at element " +
                            std::to_string(first) + " of its memory"});
    }
  }
  for (const auto& memory : plan_memory_) {
    if (const std::string found = memory.damage(); !found.empty())
      out.push_back({"guard", "a host tensor of plan(): " + found});
  }
  const auto same = [](const std::vector<fk_slot>& a, const std::vector<fk_slot>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(fk_slot)) == 0);
  };
  bool frames = same(real_.init, real_before_.init) && same(real_.weights, real_before_.weights) &&
                same(real_.forward, real_before_.forward) && same(real_.plan, real_before_.plan);
  for (size_t i = 0; i < views_.size(); ++i)
    frames &= std::memcmp(&views_[i], &views_before_[i], sizeof(fk_in)) == 0;
  for (size_t i = 0; i < dims_.size(); ++i) frames &= dims_[i] == dims_before_[i];
  if (!frames) out.push_back({"frame", "a frame, a view or a shape was changed"});
  return out;
}

}  // namespace fk
