// SPDX-License-Identifier: Apache-2.0
// Arguments of a call, from torch's stack to fields.
#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"
#include "core/deploy/shim/op_call.hpp"

namespace fk::shim {
namespace {

struct DTypeRow {
  int32_t (*torch_code)();
  const char* name;
  fk_dtype dtype;
};

const std::vector<DTypeRow>& dtype_rows() {
  static const std::vector<DTypeRow> rows = {
      {torch().aoti_torch_dtype_bfloat16, "bf16", {4, 16, 1}},
      {torch().aoti_torch_dtype_float32, "f32", {2, 32, 1}},
      {torch().aoti_torch_dtype_float16, "f16", {2, 16, 1}},
      {torch().aoti_torch_dtype_int32, "i32", {0, 32, 1}},
      {torch().aoti_torch_dtype_int64, "i64", {0, 64, 1}},
      {torch().aoti_torch_dtype_float8_e4m3fn, "f8e4m3", {10, 8, 1}},
      {torch().aoti_torch_dtype_float8_e5m2, "f8e5m2", {12, 8, 1}},
      {torch().aoti_torch_dtype_uint8, "u8", {1, 8, 1}},
      {torch().aoti_torch_dtype_int8, "i8", {0, 8, 1}},
      {torch().aoti_torch_dtype_bool, "bool", {6, 8, 1}},
      {torch().aoti_torch_dtype_float64, "f64", {2, 64, 1}},
  };
  return rows;
}

const DTypeRow* row_of(int32_t torch_code) {
  for (const auto& row : dtype_rows())
    if (row.torch_code() == torch_code) return &row;
  return nullptr;
}

// The value inside an optional argument; false for None. Frees the box.
bool unboxed(Value value, Value& inner) {
  auto* const box = reinterpret_cast<Value*>(value);
  if (!box) return false;
  inner = *box;
  delete box;
  return true;
}

std::vector<Value> list_items(Value value) {
  const auto list = reinterpret_cast<Handle>(value);
  size_t n = 0;
  std::vector<Value> items;
  if (torch().torch_list_size(list, &n) == 0) {
    for (size_t i = 0; i < n; ++i) {
      Value item = 0;
      if (torch().torch_list_get_item(list, i, &item) == 0) items.push_back(item);
    }
  }
  torch().torch_delete_list(list);
  need(items.size() == n ? 0 : 1, "reading a list");
  return items;
}

std::string text_of(Value value) {
  const auto handle = reinterpret_cast<Handle>(value);
  size_t bytes = 0;
  const char* data = nullptr;
  std::string text;
  const bool good = torch().torch_string_length(handle, &bytes) == 0 &&
                    torch().torch_string_c_str(handle, &data) == 0;
  if (good) text.assign(data, bytes);
  torch().torch_delete_string(handle);
  need(good ? 0 : 1, "reading a text");
  return text;
}

}  // namespace

std::string allowed_text(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

int32_t torch_dtype(const std::string& name) {
  for (const auto& row : dtype_rows())
    if (name == row.name) return row.torch_code();
  return -1;
}

OpCall::OpCall(const OpSchema& s, const std::vector<Argument>& arguments, Value* stack, bool plan)
    : schema(s), axes(s.axes.size(), -1), axis_origin_(s.axes.size()) {
  for (int i = 0; i < 3; ++i) {
    fields[i].resize(s.slots[i].size());
    for (size_t k = 0; k < s.slots[i].size(); ++k) {
      const OpSlot& slot = s.slots[i][k];
      auto& scalar = fields[i][k].scalar;
      if (slot.kind == Kind::number)
        scalar.f = slot.number;
      else
        scalar.i = slot.integer;
    }
  }
  size_t i = 0;
  std::string problem;
  for (const auto& argument : arguments) {
    if (plan && (argument.role != Argument::Role::slot || argument.slot->out)) continue;
    try {  // every argument is taken, so that none leaks
      take(argument, stack[i++], plan);
    } catch (const Error& error) {
      if (problem.empty()) problem = error.what();
    }
  }
  if (!problem.empty()) fail("fk::" + schema.name, problem);
}

void OpCall::take(const Argument& argument, Value value, bool plan) {
  if (argument.role == Argument::Role::planned) {
    planned = (value & 0xff) != 0;
    return;
  }
  if (argument.optional && !unboxed(value, value)) return;
  const OpSlot& slot = *argument.slot;
  if (argument.role == Argument::Role::out_dtype) {
    out_dtypes_.emplace_back(&slot, static_cast<int32_t>(value));
    return;
  }
  Field& field = fields[static_cast<int>(slot.section)][static_cast<size_t>(slot.index)];
  field.given = true;
  switch (slot.kind) {
    case Kind::tensor:
      if (slot.list.empty()) {
        take_tensor(slot, field, reinterpret_cast<Handle>(value), plan);
      } else {
        for (const Value item : list_items(value))
          take_tensor(slot, field, reinterpret_cast<Handle>(item), plan);
      }
      break;
    case Kind::ints:
      for (const Value item : list_items(value)) field.ints.push_back(static_cast<int64_t>(item));
      break;
    case Kind::boolean:
      field.scalar.i = (value & 0xff) != 0;
      break;
    case Kind::choice: {
      const std::string word = text_of(value);
      const auto found = std::find(slot.choices.begin(), slot.choices.end(), word);
      if (found == slot.choices.end())
        fail(slot.name, "`" + word + "` is not one of " + allowed_text(slot.choices));
      field.scalar.i = found - slot.choices.begin();
      break;
    }
    case Kind::dtype: {
      const DTypeRow* const row = row_of(static_cast<int32_t>(value));
      if (!row) fail(slot.name, "the contract has no such dtype");
      field.scalar.i = row->dtype.code | row->dtype.bits << 8;
      break;
    }
    default:
      std::memcpy(&field.scalar, &value, sizeof value);
  }
}

void OpCall::take_tensor(const OpSlot& slot, Field& field, Handle handle, bool plan) {
  field.tensors.emplace_back(handle);
  TensorView& v = field.views.emplace_back();
  const Torch& t = torch();
  void* data = nullptr;
  int64_t ndim = 0, *shape = nullptr, *strides = nullptr;
  int32_t type = 0, id = 0;
  bool defined = false;  // torch takes None for a tensor
  need(t.aoti_torch_is_defined(handle, &defined), "reading a tensor");
  if (!defined) fail(slot.name, "it is None, but this overload needs a tensor");
  need(t.aoti_torch_get_dim(handle, &ndim), "reading a tensor");
  if (ndim > 8) fail(slot.name, std::to_string(ndim) + " axes are too many");
  need(t.aoti_torch_get_data_ptr(handle, &data) | t.aoti_torch_get_sizes(handle, &shape) |
           t.aoti_torch_get_strides(handle, &strides) |
           t.aoti_torch_get_dtype(handle, &v.torch_dtype) |
           t.aoti_torch_get_device_type(handle, &type) | t.aoti_torch_get_device_index(handle, &id),
       "reading a tensor");
  const DTypeRow* const row = row_of(v.torch_dtype);
  if (!row) fail(slot.name, "the contract has no such dtype");
  const bool cuda = type == t.aoti_torch_device_type_cuda();
  if (!cuda && type != t.aoti_torch_device_type_cpu())
    fail(slot.name, "it lies neither on a CPU nor on a CUDA device");
  v.dtype = row->name;
  v.view = {data,
            cuda ? FK_CUDA : FK_CPU,
            std::max(id, 0),
            static_cast<int32_t>(ndim),
            row->dtype,
            shape,
            nullptr,
            0,
            0,
            0};
  finish_view(v, strides);
  if (v.view.nbytes == 0) v.view.data = nullptr;
  const bool on_host = plan && schema.find(Section::plan, slot.name) && !cuda;
  if (on_host) return;
  if (!device_known_) {
    device_type = v.view.device_type;
    device_id = v.view.device_id;
    device_known_ = true;
  } else if (device_type != v.view.device_type || device_id != v.view.device_id) {
    fail(slot.name, "it lies on another device than the tensors before it");
  }
}

}  // namespace fk::shim
