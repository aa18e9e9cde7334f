// SPDX-License-Identifier: Apache-2.0
// A resolved case in memory: every tensor in guarded memory, the frames that point to it, and the
// questions that are asked afterwards: what was written, where, and what does the output hold?
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
  bool least_aligned = false;    // views begin where the ABI's promise just holds, not at 256 bytes
  Poison poison = Poison::ones;  // of outputs and gaps
  bool snapshot = true;          // keep copies, so that the questions can be answered
};

// Where a case lies that several processes share: what is only read, and what is written.
struct SharedPlaces {
  SharedRegion read, written;
};

class CaseFrames {
 public:
  // `values` holds dense contents by field; they are converted to the resolved dtypes. `device`
  // outlives this object. With `places` in shared memory, as its owner sees it.
  CaseFrames(Device& device, const ResolvedCase& resolved, const CaseValues& values, Layout layout,
             SharedPlaces* places = nullptr);
  // The same contents in other memory, copied on the device; without what restore() needs where it
  // is not shared.
  CaseFrames(const CaseFrames& other, Layout layout, SharedPlaces* places = nullptr);
  // What the owner put there, as others see it: nothing is written, and no question answered.
  CaseFrames(Device& device, const ResolvedCase& resolved, Layout layout, SharedPlaces& places);
  // Sizes without memory: what meta() has of forward, and nothing else may be asked.
  struct Sizes {};
  CaseFrames(Device& device, const ResolvedCase& resolved, Layout layout, Sizes)
      : CaseFrames(device, resolved, layout) {
    build_frames();
  }
  // Takes from both places what a case needs.
  static void measure(Device& device, const ResolvedCase& resolved, Layout layout,
                      SharedPlaces& places);

  const ResolvedCase& resolved() const { return resolved_; }
  const Frames& real() const { return real_; }  // with data, the plan section included
  const Frames& meta() const { return meta_; }  // the same with null data pointers
  // meta's forward with the real init and weights: what Instance wants. With the sizes of a larger
  // case an instance for that one.
  Frames prepare_frames(const CaseFrames* larger = nullptr) const;

  // Other contents of what is read but not a weight, and of what is written, from the same case
  // without weights on the same device; outputs are poisoned, and with `numbers_only` floats as
  // well: then no question is answered until they are there.
  void refill(const CaseFrames& from, Poison poison, bool numbers_only = false);
  // Where the tensors lie.
  std::vector<std::span<const std::byte>> memory() const { return memory(false); }
  std::vector<std::span<const std::byte>> written_memory() const { return memory(true); }
  std::vector<const GuardedBuffer*> buffers() const {  // that they lie in
    std::vector<const GuardedBuffer*> out;
    for (const auto& s : storages_) out.push_back(s.memory.get());
    return out;
  }
  // Tells outputs apart where they lie; nothing where not every byte of their memory is an output.
  std::optional<uint64_t> written_print() const;
  // Calls `visit` with the place and size of what the frames point to beside tensors.
  template <class Visit>
  void for_views(const Visit& visit) const {
    for (const fk_in& one : views_) visit(&one, sizeof one);
    for (const Shape& one : dims_) visit(one.data(), one.size() * sizeof one[0]);
    for (const auto& one : list_items_) visit(one.data(), one.size() * sizeof one[0]);
  }
  // Of all memory that a call may write to, whatever the contract says of its elements.
  uint64_t writable_print() const {
    uint64_t out = 0;
    for (const auto& s : storages_)
      if (s.written) out = out * 0x9e3779b97f4a7c15u + s.memory->print();
    return out;
  }
  // The host copies that plan() sees, from the fields as they are now.
  void refresh_plan();
  // Puts the contents of everything that is written back to what it was at the start.
  void restore(Poison poison);

  // Empty, or one sentence about the first broken rule: a canary, an input, a weight, a gap between
  // strided rows, an element outside the write footprint, a frame.
  struct Broken {
    std::string rule, text;
  };
  std::vector<Broken> broken() const;

  // Contents of a field, dense, as they are now, on the host. `entry` is the index in a list.
  Tensor contents(const std::string& field, int64_t entry = 0) const;
  CaseValues written() const;  // the same of all fields that a call writes
  // 1 for every element that the contract says is written: all of out, the footprint of inout.
  std::vector<uint8_t> footprint(const CaseField& field, int64_t entry) const;
  // Bytes of all fields, those of inout twice, as they are read and written: what one call moves.
  // Of a field with a footprint it is not known how much that is; it counts once.
  int64_t bytes() const;

 private:
  struct Storage {
    std::unique_ptr<GuardedBuffer> memory;
    std::vector<std::byte> before;
    mutable std::optional<uint64_t> print;  // instead of `before` for what is never written
    bool written = false, weight = false;
    bool whole = false;  // the contract has all of it written
    std::string field;   // for messages: "k_cache and v_cache"
    int64_t elements = 0;
    int64_t behind = 0;  // bytes from a multiple of 256 to its start
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
  // Without memory, to measure.
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
  // 1 for every element of a storage that may be written, held part after held part.
  std::vector<uint8_t> writable(size_t storage) const;

  Device& device_;
  std::unique_ptr<Device> cpu_;  // the tensors of plan() are memory of the host
  ResolvedCase resolved_;
  Layout layout_;
  std::vector<Storage> storages_;
  std::vector<Placed> placed_;
  Frames real_, meta_;
  Frames real_before_;
  std::vector<fk_in> views_before_;
  std::vector<Shape> dims_before_;
  // Addresses in frames must not move.
  std::deque<fk_in> views_;
  std::deque<Shape> dims_;
  std::deque<std::vector<const fk_in*>> list_items_;
  std::deque<fk_in_list> lists_;
  std::deque<GuardedBuffer> plan_memory_;
  std::vector<std::string> planned_;  // the fields of plan_memory_
};

}  // namespace fk
