// SPDX-License-Identifier: Apache-2.0
// A resolved case in memory: every tensor in guarded memory, and the frames that point to it. After
// a call it answers which elements were written, where, and with what values.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/cases/guarded.hpp"
#include "core/cases/inputs.hpp"
#include "core/plugin/instance.hpp"

namespace fk {

struct Layout {
  bool interleaved = false;      // k_cache and v_cache share pages: [P, 2, Z, G, D]
  int shift = 0;                 // moves every buffer to another address
  bool at_end = false;           // every buffer ends at a page without access (guarded.hpp)
  bool least_aligned = false;    // alignment is the ABI's minimum, not 256 bytes
  Poison poison = Poison::ones;  // of outputs and gaps
  bool snapshot = true;          // keep copies, to answer questions after a call
};

// Memory of a case shared by several processes: read-only data, and data that calls write.
struct SharedPlaces {
  SharedRegion read, written;
};

class CaseFrames {
 public:
  // `values` holds dense contents by field, which are converted to the resolved dtypes. `device`
  // must outlive this object. With `places` it is in shared memory, as its owner.
  CaseFrames(Device& device, const ResolvedCase& resolved, const CaseValues& values, Layout layout,
             SharedPlaces* places = nullptr);
  // A copy of the contents in other memory, made on the device. Unless it is shared, restore() does
  // not work on it.
  CaseFrames(const CaseFrames& other, Layout layout, SharedPlaces* places = nullptr);
  // The owner's memory, in another process: nothing is written, and no questions are answered.
  CaseFrames(Device& device, const ResolvedCase& resolved, Layout layout, SharedPlaces& places);
  // Sizes without memory: only meta()'s forward section is valid.
  struct Sizes {};
  CaseFrames(Device& device, const ResolvedCase& resolved, Layout layout, Sizes)
      : CaseFrames(device, resolved, layout) {
    build_frames();
  }
  // Counts the bytes that a case takes from both places.
  static void measure(Device& device, const ResolvedCase& resolved, Layout layout,
                      SharedPlaces& places);

  const ResolvedCase& resolved() const { return resolved_; }
  const Frames& real() const { return real_; }  // with data, the plan section included
  const Frames& meta() const { return meta_; }  // the same with null data pointers
  // meta's forward with the real init and weights, for Instance. `larger`: the forward sizes come
  // from this case.
  Frames prepare_frames(const CaseFrames* larger = nullptr) const;

  // Replaces inputs other than weights, and written fields, by those of another call of the same
  // case on the same device. Outputs are poisoned. With `numbers_only` floats are poisoned too, and
  // no question can be answered until they are filled.
  void refill(const CaseFrames& from, Poison poison, bool numbers_only = false);
  // The same from values, as in the constructor; they have the same weights.
  void refill(const CaseValues& values);
  // Memory of the tensors; written_memory(): of the written ones.
  std::vector<std::span<const std::byte>> memory() const { return memory(false); }
  std::vector<std::span<const std::byte>> written_memory() const { return memory(true); }
  std::vector<const GuardedBuffer*> buffers() const {  // that hold the tensors
    std::vector<const GuardedBuffer*> out;
    for (const auto& s : storages_) out.push_back(s.memory.get());
    return out;
  }
  // A hash of the outputs, to tell them apart; empty if some bytes of their memory are no output.
  std::optional<uint64_t> written_print() const;
  // Calls `visit` with address and size of the views, which frames point to besides tensors.
  template <class Visit>
  void for_views(const Visit& visit) const {
    for (const fk_in& one : views_) visit(&one, sizeof one);
    for (const Shape& one : dims_) visit(one.data(), one.size() * sizeof one[0]);
    for (const auto& one : list_items_) visit(one.data(), one.size() * sizeof one[0]);
  }
  // A hash of all memory that a call may write to, including elements outside of the contract's
  // footprint.
  uint64_t writable_print() const {
    uint64_t out = 0;
    for (const auto& s : storages_)
      if (s.written) out = out * 0x9e3779b97f4a7c15u + s.memory->print();
    return out;
  }
  // Updates the host copies for plan() from the present fields.
  void refresh_plan();
  // Restores the initial contents of all written fields.
  void restore(Poison poison);

  // Empty, or one sentence about the first broken rule: a changed canary, input, weight, gap
  // between strided rows, element outside the write footprint, or frame.
  struct Broken {
    std::string rule, text;
  };
  std::vector<Broken> broken() const;

  // The present contents of a field, dense, on the host. `entry` is the index in a list.
  Tensor contents(const std::string& field, int64_t entry = 0) const;
  CaseValues written() const;  // the same for all fields that a call writes
  // 1 for every element that the contract lets a call write: all of out, the footprint of inout.
  std::vector<uint8_t> footprint(const CaseField& field, int64_t entry) const;
  // Bytes that one call moves: all fields, inout twice because it is read and written. A field with
  // a footprint counts once, since the written part is unknown.
  int64_t bytes() const;

 private:
  struct Storage {
    std::unique_ptr<GuardedBuffer> memory;
    std::vector<std::byte> before;
    mutable std::optional<uint64_t> print;  // hash in place of `before`, for fields never written
    bool written = false, weight = false;
    bool whole = false;  // the contract requires all of it to be written
    std::string field;   // for messages: "k_cache and v_cache"
    int64_t elements = 0;
    int64_t behind = 0;  // offset from a multiple of 256 bytes
    DType dtype = DType::f32;
    std::vector<HeldPart> held;  // empty: all of it has memory
  };
  struct Placed {
    const CaseField* field = nullptr;
    int64_t entry = 0;
    Shape strides;
    int64_t offset = 0;  // elements
    size_t storage = 0;
    Tensor initial;  // of inout fields
    fk_in* real = nullptr;
    fk_in* meta = nullptr;
  };
  void place(const CaseField& field, int64_t entry, size_t storage, Shape strides, int64_t offset);
  void place_all();
  std::vector<std::span<const std::byte>> memory(bool written_only) const;
  void allocate(SharedPlaces* places, bool owner);
  void build();
  // Without memory, for measure().
  CaseFrames(Device& device, const ResolvedCase& resolved, Layout layout)
      : device_(device), cpu_(open_device("cpu")), resolved_(resolved), layout_(layout) {
    place_all();
  }
  void fill(const CaseValues& values);
  void copy_from(const CaseFrames& other);
  void write(const Placed& placed, const Tensor& dense);
  fk_in* view(const Placed& placed, bool real);
  void build_frames();
  fk_slot tensor_slot(const CaseField& field, bool real);
  void build_plan();
  void remember();
  const Placed& at(const CaseField& field, int64_t entry) const;
  // 1 for every writable element of a storage; held parts follow one another.
  std::vector<uint8_t> writable(size_t storage) const;

  Device& device_;
  std::unique_ptr<Device> cpu_;  // tensors of plan() are in host memory
  ResolvedCase resolved_;
  Layout layout_;
  std::vector<Storage> storages_;
  std::vector<Placed> placed_;
  Frames real_, meta_;
  Frames real_before_;
  std::vector<fk_in> views_before_;
  std::vector<Shape> dims_before_;
  // Deques, because frames contain these addresses.
  std::deque<fk_in> views_;
  std::deque<Shape> dims_;
  std::deque<std::vector<const fk_in*>> list_items_;
  std::deque<fk_in_list> lists_;
  std::deque<GuardedBuffer> plan_memory_;
  std::vector<std::string> planned_;  // names of the fields in plan_memory_
};

}  // namespace fk
