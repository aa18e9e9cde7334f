// SPDX-License-Identifier: Apache-2.0
#include "core/deploy/shim/op_call.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"

namespace fk::shim {
namespace {

std::string numbers_text(const int64_t* values, int n) {
  std::string text = "[";
  for (int i = 0; i < n; ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

}  // namespace

void finish_view(TensorView& v, const int64_t* strides) {
  const int n = v.view.ndim;
  int64_t step = 1, reach = 0;
  bool empty = false;
  v.dense = true;
  for (int i = n - 1; i >= 0; --i) {
    v.strides[i] = step;
    step *= v.view.shape[i];
    empty |= v.view.shape[i] == 0;
  }
  if (strides && !empty) {
    for (int i = 0; i < n; ++i)  // the stride of an axis with one entry says nothing
      v.dense &= v.view.shape[i] == 1 || strides[i] == v.strides[i];
    if (!v.dense) std::copy(strides, strides + n, v.strides);
  }
  for (int i = 0; i < n; ++i) reach += (v.view.shape[i] - 1) * v.strides[i];
  v.view.strides = v.strides;
  v.view.nbytes = empty ? 0 : (reach + 1) * v.view.dtype.bits / 8;
}

FrameStorage::FrameStorage(const std::vector<OpSlot>& slots, const std::vector<Field>& fields)
    : slots_(std::max<size_t>(1, slots.size())) {
  for (size_t i = 0; i < slots.size(); ++i) {
    const OpSlot& slot = slots[i];
    const Field& field = fields[i];
    fk_slot& out = slots_[i];
    if (slot.kind == Kind::ints) {
      ints_.push_back({static_cast<int64_t>(field.ints.size()), field.ints.data()});
      out.p = &ints_.back();
    } else if (slot.kind != Kind::tensor) {
      out = field.scalar;
    } else if (!slot.list.empty()) {
      if (!field.given) continue;
      auto& pointers = pointers_.emplace_back();
      for (const auto& view : field.views) pointers.push_back(&view.view);
      lists_.push_back({static_cast<int64_t>(pointers.size()), pointers.data()});
      out.p = &lists_.back();
    } else if (field.given) {
      out.p = &field.views.front().view;
    }
  }
}

std::string OpCall::name_of(const OpSlot& slot) const {
  return "fk::" + schema.name + ": " + slot.name;
}

void OpCall::bind(int axis, int64_t value, const std::string& where) {
  const auto at = static_cast<size_t>(axis);
  if (axes[at] < 0) {
    axes[at] = value;
    axis_origin_[at] = where;
  } else if (axes[at] != value) {
    fail("fk::" + schema.name, "the axis " + schema.axes[at] + " is " + std::to_string(axes[at]) +
                                   " in " + axis_origin_[at] + " and " + std::to_string(value) +
                                   " in " + where);
  }
}

void OpCall::bind_plain() {
  for (size_t i = 0; i < fields[0].size(); ++i) {
    const OpSlot& slot = schema.slots[0][i];
    if (slot.kind == Kind::integer && fields[0][i].given && slot.axis_index >= 0)
      bind(slot.axis_index, fields[0][i].scalar.i, slot.name);
    if (slot.kind != Kind::ints || slot.axis.empty() || !slot.list.empty()) continue;
    size_t k = 0;
    for (size_t a = 0; a < schema.axes.size() && k < fields[0][i].ints.size(); ++a) {
      // "KH,KW" names an axis for each integer, in order.
      const std::string all = "," + slot.axis + ",";
      const auto at = all.find("," + schema.axes[a] + ",");
      if (at == std::string::npos) continue;
      const auto nth =
          static_cast<size_t>(std::count(all.begin(), all.begin() + static_cast<long>(at), ','));
      if (nth < fields[0][i].ints.size())
        bind(static_cast<int>(a), fields[0][i].ints[nth], slot.name);
      ++k;
    }
  }
  for (const int section : {1, 2}) {
    for (size_t i = 0; i < fields[section].size(); ++i) {
      const OpSlot& slot = schema.slots[section][i];
      const Field& field = fields[section][i];
      if (!field.given || slot.kind != Kind::tensor) continue;
      for (size_t a = 0; a < schema.axes.size() && !slot.list.empty(); ++a)
        if (schema.axes[a] == slot.list)
          bind(static_cast<int>(a), static_cast<int64_t>(field.views.size()), slot.name);
      for (const auto& v : field.views) {
        if (static_cast<size_t>(v.view.ndim) != slot.shape.size())
          fail(name_of(slot), "it has shape " + numbers_text(v.view.shape, v.view.ndim) + ", but " +
                                  std::to_string(slot.shape.size()) + " axes are needed");
        for (size_t d = 0; d < slot.shape.size() && slot.list.empty(); ++d)
          if (slot.letters[d] >= 0) bind(slot.letters[d], v.view.shape[d], slot.name);
      }
    }
  }
}

Axes OpCall::named_axes() const {
  Axes named;
  for (size_t a = 0; a < axes.size(); ++a)
    if (axes[a] >= 0) named[schema.axes[a]] = axes[a];
  return named;
}

// Finds one unknown axis from a dimension like 2*F; false if none is left.
bool OpCall::solve_one() {
  for (const int section : {1, 2}) {
    for (size_t i = 0; i < fields[section].size(); ++i) {
      const OpSlot& slot = schema.slots[section][i];
      const Field& field = fields[section][i];
      if (!field.given || slot.kind != Kind::tensor || !slot.list.empty()) continue;
      for (size_t d = 0; d < slot.shape.size(); ++d) {
        if (slot.letters[d] >= 0 || slot.shape[d].is_constant()) continue;
        std::string open;
        int unknown = 0, axis = -1;
        for (size_t a = 0; a < axes.size(); ++a) {
          if (axes[a] >= 0 || !slot.shape[d].symbols().count(schema.axes[a])) continue;
          axis = static_cast<int>(a);
          ++unknown;
        }
        if (unknown != 1) continue;
        Axes named = named_axes();
        int64_t at[2];
        for (const int64_t x : {0, 1}) {
          named[schema.axes[static_cast<size_t>(axis)]] = x;
          at[x] = slot.shape[d].eval(named);
        }
        const int64_t slope = at[1] - at[0], rest = field.views.front().view.shape[d] - at[0];
        if (slope == 0 || rest % slope != 0) continue;
        bind(axis, rest / slope, slot.name);
        return true;
      }
    }
  }
  return false;
}

void OpCall::fill_init() {
  for (size_t i = 0; i < fields[0].size(); ++i) {
    const OpSlot& slot = schema.slots[0][i];
    if (slot.kind != Kind::integer || fields[0][i].given || slot.axis_index < 0) continue;
    const int64_t value = axes[static_cast<size_t>(slot.axis_index)];
    if (value >= 0)
      fields[0][i].scalar.i = value;
    else
      fail(name_of(slot), "no shape gives it; pass it as a keyword");
  }
}

void OpCall::check_dtype(const OpSlot& slot, const TensorView& v) const {
  if (slot.dtypes.size() == 1) {  // of another field, or the only one
    for (const int section : {1, 2}) {
      for (size_t i = 0; i < fields[section].size(); ++i) {
        const OpSlot& other = schema.slots[section][i];
        if (other.name != slot.dtypes[0]) continue;
        const Field& field = fields[section][i];
        if (field.given && field.views.front().dtype != v.dtype)
          fail(name_of(slot), "it is " + std::string(v.dtype) + " and " + other.name + " is " +
                                  std::string(field.views.front().dtype) +
                                  "; the contract wants one dtype");
        return;
      }
    }
  }
  if (std::find(slot.dtypes.begin(), slot.dtypes.end(), v.dtype) == slot.dtypes.end())
    fail(name_of(slot), "it is " + std::string(v.dtype) + ", but the contract allows " +
                            allowed_text(slot.dtypes));
}

void OpCall::check_layout(const OpSlot& slot, const TensorView& v) const {
  const int n = v.view.ndim;
  if (!v.dense && !slot.strided)
    fail(name_of(slot),
         "its strides are " + numbers_text(v.strides, n) + ", but the contract wants dense rows",
         "pass " + slot.name + ".contiguous()");
  if (!v.dense && v.strides[n - 1] != 1)
    fail(name_of(slot), "its last axis has gaps", "pass " + slot.name + ".contiguous()");
  const int64_t alignment = slot.section == Section::weights ? FK_ALIGNMENT : fk_alignment(&v.view);
  if (reinterpret_cast<uintptr_t>(v.view.data) % static_cast<uint64_t>(alignment) != 0)
    fail(name_of(slot), "its address is no multiple of " + std::to_string(alignment) + " bytes",
         "pass " + slot.name + ".clone()");
}

void OpCall::check_shapes() const {
  Axes named;
  for (const int section : {1, 2}) {
    for (size_t i = 0; i < fields[section].size(); ++i) {
      const OpSlot& slot = schema.slots[section][i];
      if (!fields[section][i].given || slot.kind != Kind::tensor) continue;
      for (const auto& v : fields[section][i].views) {
        check_dtype(slot, v);
        check_layout(slot, v);
        for (size_t d = 0; d < slot.shape.size() && slot.list.empty(); ++d) {
          if (slot.letters[d] >= 0) continue;
          if (named.empty()) named = named_axes();
          const int64_t wanted = slot.shape[d].eval(named);
          if (wanted != v.view.shape[d])
            fail(name_of(slot), "axis " + std::to_string(d) + " is " +
                                    std::to_string(v.view.shape[d]) + ", but " +
                                    slot.shape[d].text() + " is " + std::to_string(wanted));
        }
      }
    }
  }
}

void OpCall::check_present() const {
  for (const int section : {1, 2}) {
    for (size_t i = 0; i < fields[section].size(); ++i) {
      const OpSlot& slot = schema.slots[section][i];
      if (slot.group.empty()) continue;
      for (size_t k = 0; k < i; ++k) {
        const OpSlot& other = schema.slots[section][k];
        if (other.group == slot.group && fields[section][k].given != fields[section][i].given)
          fail("fk::" + schema.name,
               other.name + " and " + slot.name + " are a group: pass both, or none");
      }
    }
  }
}

void OpCall::check() {
  if (!device_known_) fail("fk::" + schema.name, "no tensor is given");
  if (device_type != schema.op->claims->device_type)
    fail("fk::" + schema.name, device_type == FK_CPU ? "the plugin needs tensors of a CUDA device"
                                                     : "the plugin needs tensors of the CPU");
  check_present();
  bind_plain();
  while (solve_one()) {
  }
  fill_init();
  check_shapes();
}

void OpCall::complete() {
  const Axes named = named_axes();
  for (const OpSlot* slot : schema.outs) {
    Field& field = fields[2][static_cast<size_t>(slot->index)];
    if (field.given) continue;
    std::vector<int64_t> shape, strides(slot->shape.size());
    for (const auto& dim : slot->shape) shape.push_back(dim.eval(named));
    int64_t step = 1;
    for (size_t i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
    int32_t dtype = -1;
    for (const auto& [of, code] : out_dtypes_)
      if (of == slot) dtype = code;
    for (const int section : {2, 1})  // that of the field it follows, or of the first float input
      for (size_t i = 0; i < fields[section].size() && dtype < 0; ++i) {
        const Field& other = fields[section][i];
        if (!other.given || other.views.empty()) continue;
        const bool follows =
            slot->dtypes.size() == 1 && schema.slots[section][i].name == slot->dtypes[0];
        const auto code = other.views.front().view.dtype.code;
        const bool first = slot->dtypes.size() > 1 && (code == 2 || code == 4);
        if (follows || first) dtype = other.views.front().torch_dtype;
      }
    if (dtype < 0) dtype = torch_dtype(slot->dtypes[0]);
    if (dtype < 0) fail(name_of(*slot), "nothing gives its dtype");
    const auto& t = torch();
    Handle handle = nullptr;
    need(t.aoti_torch_empty_strided(static_cast<int64_t>(shape.size()), shape.data(),
                                    strides.data(), dtype,
                                    device_type == FK_CUDA ? t.aoti_torch_device_type_cuda()
                                                           : t.aoti_torch_device_type_cpu(),
                                    device_id, &handle),
         "making an output");
    field.given = true;
    take_tensor(*slot, field, handle, false);
    check_dtype(*slot, field.views.front());
  }
  make_key();
}

void OpCall::make_key() {
  const auto add = [](std::string& to, const auto& value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  add(weights_key, device_id);
  for (const auto& field : fields[0]) {
    add(weights_key, field.scalar);
    for (const int64_t value : field.ints) add(weights_key, value);
  }
  for (const auto& field : fields[1]) {
    add(weights_key, field.given);
    for (const auto& v : field.views) {
      add(weights_key, v.view.data);
      add(weights_key, v.torch_dtype);
      for (int d = 0; d < v.view.ndim; ++d) add(weights_key, v.view.shape[d]);
    }
  }
  key = weights_key;
  for (size_t i = 0; i < fields[2].size(); ++i) {
    const Field& field = fields[2][i];
    const OpSlot& slot = schema.slots[2][i];
    if (slot.out && !slot.optional && !slot.strided && slot.dtypes.size() == 1)
      continue;  // follows from the rest
    add(key, field.given);
    for (const auto& v : field.views) {
      add(key, v.torch_dtype);
      add(key, v.dense);
      for (int d = 0; d < v.view.ndim && !v.dense; ++d) add(key, v.strides[d]);
    }
  }
}

}  // namespace fk::shim
