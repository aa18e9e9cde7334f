// SPDX-License-Identifier: Apache-2.0
// The arguments of one call from torch, checked against the contract, and the frames made of them.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "core/deploy/shim/op_schema.hpp"
#include "core/deploy/shim/torch_abi.hpp"

namespace fk::shim {

// A view with its own strides. Its shape belongs to the tensor, or to `dims` in a maximum frame.
// The view points into the struct: do not move it.
struct TensorView {
  fk_in view{};
  int64_t strides[8] = {};
  int64_t dims[8] = {};
  int32_t torch_dtype = 0;
  std::string_view dtype;
  bool dense = true;
};

// The value of one slot.
struct Field {
  Field() = default;
  Field(Field&&) = default;  // views stay where they are
  Field& operator=(Field&&) = default;
  Field(const Field&) = delete;

  bool given = false;
  fk_slot scalar{};
  std::vector<int64_t> ints;
  std::vector<TensorHandle> tensors;  // one, or the entries of a list
  std::deque<TensorView> views;
};

// Frames of a section, with the lists and integers that they point to.
class FrameStorage {
 public:
  FrameStorage(const std::vector<OpSlot>& slots, const std::vector<Field>& fields);
  const void* data() const { return slots_.data(); }

 private:
  std::vector<fk_slot> slots_;
  std::deque<fk_in_list> lists_;
  std::deque<fk_ints> ints_;
  std::deque<std::vector<const fk_in*>> pointers_;
};

class OpCall {
 public:
  // Takes the arguments from torch's stack. They are released even if this throws. `plan`: fields
  // that plan() reads may lie on the host.
  OpCall(const OpSchema& schema, const std::vector<Argument>& arguments, Value* stack, bool plan);

  // Binds axes and checks shapes, dtypes, layouts and devices. Error with a sentence.
  void check();
  // After check(): makes the outputs that the caller did not give, and the keys.
  void complete();

  const OpSchema& schema;
  std::vector<Field> fields[3];  // init, weights, forward
  std::vector<int64_t> axes;     // -1: unknown
  int32_t device_type = 0, device_id = 0;
  bool planned = false;
  // Equal for calls that one instance may serve if it is large enough.
  std::string weights_key, key;

 private:
  void take(const Argument& argument, Value value, bool plan);
  void take_tensor(const OpSlot& slot, Field& field, Handle tensor, bool plan);
  void bind(int axis, int64_t value, const std::string& where);
  void bind_plain();
  bool solve_one();
  void fill_init();
  void check_shapes() const;
  void check_dtype(const OpSlot& slot, const TensorView& view) const;
  void check_layout(const OpSlot& slot, const TensorView& view) const;
  void check_present() const;
  void make_key();
  Axes named_axes() const;
  std::string name_of(const OpSlot& slot) const;
  std::vector<std::pair<const OpSlot*, int32_t>> out_dtypes_;
  std::vector<std::string> axis_origin_;
  bool device_known_ = false;
};

// "f32, bf16"
std::string allowed_text(const std::vector<std::string>& names);
// torch's number of a dtype, by the contract's name; -1 if there is none.
int32_t torch_dtype(const std::string& name);
// Fills strides and byte count of a view from its shape and given strides. `dense`: row-major.
void finish_view(TensorView& view, const int64_t* strides_or_null);

}  // namespace fk::shim
