// SPDX-License-Identifier: Apache-2.0
// Sees every call of a running model, and keeps some calls as cases (recorder.hpp). Calls with
// equal shapes and equal integers are one case. Memory is bounded: calls that are not kept are only
// counted.
#include "core/exec/recorder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/fields.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/exec/call_text.hpp"
#include "core/exec/node_times.hpp"

namespace fk {

namespace {

constexpr size_t kShapesMax = 4096;  // distinct shapes of one op in one phase

// True for floats that control a call and are no data: probabilities, weights of experts. They have
// one dtype and a generator of their own, and are small.
bool is_metadata(const Slot& slot, const fk_in& view) {
  constexpr int64_t kMetadataBytes = 1 << 20;
  if (!is_float(dtype_of(view))) return true;
  return slot.dtype_of.empty() && slot.dtypes.size() == 1 && slot.dtypes[0] == DType::f32 &&
         !slot.values.empty() && view.nbytes <= kMetadataBytes;
}

void write_all(int fd, const std::byte* data, size_t count) {
  while (count > 0) {
    const ssize_t written = ::write(fd, data, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("capture", "the tensors cannot be written: " + errno_text());
    data += written;
    count -= static_cast<size_t>(written);
  }
}

// A dense copy of a view's data.
std::vector<std::byte> fetch(Device& device, const fk_in& view) {
  const auto width = static_cast<size_t>(bytes(dtype_of(view)));
  const auto count = static_cast<size_t>(numel(shape_of(view)));
  if (count == 0) return {};
  std::vector<std::byte> raw(static_cast<size_t>(view.nbytes));
  device.download(raw.data(), view.data, view.nbytes);
  if (is_dense(view)) return raw;
  std::vector<std::byte> out(count * width);
  Shape at(static_cast<size_t>(view.ndim), 0);
  for (size_t i = 0; i < count; ++i) {
    int64_t from = 0;
    for (size_t d = 0; d < at.size(); ++d) from += at[d] * view.strides[d];
    std::memcpy(&out[i * width], &raw[static_cast<size_t>(from) * width], width);
    for (size_t d = at.size(); d-- > 0 && ++at[d] == view.shape[d];) at[d] = 0;
  }
  return out;
}

// Contents of one field, not yet written.
struct Fetched {
  const Slot* slot = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> data;
  std::string name;
};

// Why a call's integers rule it out as a case; empty: it can be one.
std::string no_case(const Contract& contract, const std::vector<Fetched>& fields) {
  const auto made_by = [&](const char* generator) {
    return std::find_if(fields.begin(), fields.end(), [&](const Fetched& f) {
      return starts_with(f.slot->values, generator) && f.dtype == DType::i32 && !f.shape.empty();
    });
  };
  const auto own = [](const Fetched& f) { return !f.slot->replicated; };
  if (contract.comm() && std::any_of(fields.begin(), fields.end(), own))
    return "an exchange: its values depend on all ranks";
  const auto offsets = made_by("moe_offsets("), rows = made_by("moe_rows(");
  if (offsets == fields.end() || rows == fields.end() || offsets->data.empty()) return "";
  int32_t last = 0;
  std::memcpy(&last, offsets->data.data() + offsets->data.size() - sizeof last, sizeof last);
  return last == rows->shape[0] ? "" : "rows that no expert has";
}

// Calls of one op in one phase with equal shapes.
struct ShapeClass {
  int64_t calls = 0, fresh = 0;        // all calls; calls with contents that no kept case has
  std::map<std::string, size_t> kept;  // contents -> index of the case
};

struct OpCases {
  int64_t cases = 0, calls = 0, limit = 0, size = 0;  // calls that were left out, by reason
  std::map<std::string, int64_t> no_case;             // the same, with the reason
  std::map<std::vector<int64_t>, ShapeClass> shapes;
};

}  // namespace

std::string content_name(DType dtype, const Shape& shape, const void* data) {
  Sha256 hash;
  hash.update(std::string(name(dtype)) + shape_text(shape) + "\n");
  hash.update(
      {static_cast<const std::byte*>(data), static_cast<size_t>(shape_bytes(shape, dtype))});
  return hex_text(hash.finish());
}

struct CaseRecorder::Impl {
  Impl(Device& d, RecordOptions o, int f) : device(d), options(std::move(o)), fd(f) {
    if (options.timed_steps > 0) timer.emplace(device, options.timed_steps);
  }

  struct PhaseWatch final : NodeWatch {
    PhaseWatch(Impl& impl, std::string name) : owner(impl), phase(std::move(name)) {}
    void step() override { ++steps; }
    void before(const Program::NodeInfo& node) override {
      pending.reset();
      const auto& wanted = owner.options.ops;
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), node.op) != wanted.end())
        pending = owner.call(*this, node);
    }
    void after(const Program::NodeInfo& node) override {
      if (pending) owner.results(*pending, node);
      pending.reset();
    }
    Impl& owner;
    std::string phase;
    int64_t steps = 0;
    std::optional<size_t> pending;  // the case whose outputs are wanted
    std::map<const Program::NodeInfo*, int64_t> kinds;
    std::map<std::string, OpCases> ops;
  };

  // Number of the call's kind. Calls of one kind differ only in shapes and contents.
  int64_t kind_of(PhaseWatch& at, const Program::NodeInfo& node) {
    const auto [it, fresh] = at.kinds.try_emplace(&node, 0);
    if (!fresh) return it->second;
    RecordedCall call = recorded_call(*node.contract, node.frames);
    call.axes.clear();
    call.listed.clear();
    it->second = static_cast<int64_t>(
        known_kinds.try_emplace(to_fields(call).dump(), known_kinds.size()).first->second);
    return it->second;
  }

  // Kind and shapes of a call: the key of a ShapeClass.
  static std::vector<int64_t> key_of(int64_t kind, const Program::NodeInfo& node) {
    std::vector<int64_t> key = {kind};
    for (const auto id : {SectionId::weights, SectionId::forward}) {
      const auto& frame = id == SectionId::weights ? node.frames.weights : node.frames.forward;
      for (const auto& slot : node.contract->section(id)) {
        if (!slot.is_tensor()) continue;
        for (const fk_in* view : views_of(slot, frame))
          key.insert(key.end(), view->shape, view->shape + view->ndim);
      }
    }
    return key;
  }

  Fetched get(const Slot& slot, const fk_in& view) const {
    Fetched f{&slot, dtype_of(view), shape_of(view), fetch(device, view), {}};
    f.name = content_name(f.dtype, f.shape, f.data.data());
    return f;
  }

  // Handles a call. Returns the index of a new case.
  std::optional<size_t> call(PhaseWatch& at, const Program::NodeInfo& node) {
    OpCases& op = at.ops[node.op];
    ++op.calls;
    const auto key = key_of(kind_of(at, node), node);
    if (!op.shapes.count(key) && op.shapes.size() >= kShapesMax) {
      ++op.limit;
      return std::nullopt;
    }
    ShapeClass& shape = op.shapes[key];
    ++shape.calls;
    std::vector<Fetched> fields;
    std::string contents;
    for (const auto& slot : node.contract->section(SectionId::forward)) {
      if (!slot.is_tensor() || !slot.is_read()) continue;
      for (const fk_in* view : views_of(slot, node.frames.forward)) {
        if (!is_metadata(slot, *view)) continue;
        fields.push_back(get(slot, *view));
        contents += slot.name + fields.back().name;
      }
    }
    if (const std::string why = no_case(*node.contract, fields); !why.empty()) {
      ++op.no_case[why];
      return std::nullopt;
    }
    if (const auto it = shape.kept.find(contents); it != shape.kept.end()) {
      ++cases[it->second].count;
      return std::nullopt;
    }
    if (!wanted(op, shape)) {
      ++op.limit;
      return std::nullopt;
    }
    if (!room_for(fields)) {
      ++op.size;
      return std::nullopt;
    }
    shape.kept[contents] = cases.size();
    keep(at, node, fields);
    ++op.cases;
    return cases.size() - 1;
  }

  // Keeps the first call with its shapes, then others at growing distances, so that layers and
  // steps are spread. One set of shapes gets a quarter of an op's cases at most.
  bool wanted(const OpCases& op, ShapeClass& shape) const {
    const int64_t index = shape.fresh++;
    if (op.cases >= options.cases_max) return false;
    const auto kept = static_cast<int64_t>(shape.kept.size());
    const bool turn = (index & (index + 1)) == 0;  // 0, 1, 3, 7, 15, ...
    return turn && kept < std::max<int64_t>(1, options.cases_max / 4);
  }

  bool room_for(const std::vector<Fetched>& fields) const {
    int64_t sum = written;
    for (const auto& f : fields)
      if (!tensors.contains(f.name)) sum += static_cast<int64_t>(f.data.size());
    return sum <= options.bytes_max;
  }

  void keep(PhaseWatch& at, const Program::NodeInfo& node, const std::vector<Fetched>& fields) {
    RecordedCase kept;
    static_cast<RecordedCall&>(kept) = recorded_call(*node.contract, node.frames);
    kept.name = at.phase + "." + std::to_string(at.ops[node.op].cases);
    std::replace(kept.name.begin(), kept.name.end(), ' ', '_');  // for example "decode up to 16"
    kept.phase = at.phase;
    kept.path = node.path;
    kept.provider = node.provider;
    kept.workload = workload;
    kept.step = at.steps - 1;
    for (const auto& f : fields) kept.tensors[f.slot->name].push_back(put(f));
    for (const auto id : {SectionId::weights, SectionId::forward}) {
      const auto& frame = id == SectionId::weights ? node.frames.weights : node.frames.forward;
      for (const auto& slot : node.contract->section(id)) {
        if (!slot.is_tensor()) continue;
        for (const fk_in* view : views_of(slot, frame)) {
          kept.shapes[slot.name].push_back(shape_of(*view));
          const bool there = id == SectionId::forward && is_metadata(slot, *view);
          if (options.values && slot.is_read() && !there) put_value(kept, slot, *view);
        }
      }
    }
    cases.push_back(std::move(kept));
  }

  // Stores a float tensor if there is space; otherwise its generator makes it when the case is
  // used. A list is stored whole or not at all.
  void put_value(RecordedCase& kept, const Slot& slot, const fk_in& view) {
    const auto size = shape_bytes(shape_of(view), dtype_of(view));
    const bool gone = contains(kept.generated, slot.name);
    if (!gone && size <= options.tensor_bytes_max && written + size <= options.bytes_max) {
      kept.tensors[slot.name].push_back(put(get(slot, view)));
      return;
    }
    kept.tensors.erase(slot.name);
    if (!gone) kept.generated.push_back(slot.name);
  }

  std::string put(const Fetched& f) {
    if (tensors.contains(f.name)) return f.name;
    write_all(fd, f.data.data(), f.data.size());
    tensors[f.name] = {std::string(name(f.dtype)), f.shape, written, 0};
    written += static_cast<int64_t>(f.data.size());
    return f.name;
  }

  // Records integers that a new case's call wrote: a router's choices, a permutation.
  void results(size_t index, const Program::NodeInfo& node) {
    for (const auto& slot : node.contract->section(SectionId::forward)) {
      if (!slot.is_tensor() || slot.role != Role::out) continue;
      for (const fk_in* view : views_of(slot, node.frames.forward)) {
        if (is_float(dtype_of(*view))) continue;
        Fetched f = get(slot, *view);
        if (room_for({f})) cases[index].outputs[slot.name].push_back(put(f));
      }
    }
  }

  Device& device;
  const RecordOptions options;
  const int fd;
  std::string workload;
  std::optional<NodeTimer> timer;  // in place of cases
  std::map<std::string, size_t> known_kinds;
  std::map<std::string, std::unique_ptr<PhaseWatch>> watches;
  std::vector<RecordedCase> cases;
  std::map<std::string, RecordedTensor> tensors;  // by name
  int64_t written = 0;
};

CaseRecorder::CaseRecorder(Device& device, RecordOptions options, int fd)
    : impl_(std::make_unique<Impl>(device, std::move(options), fd)) {}
CaseRecorder::~CaseRecorder() = default;

NodeWatch& CaseRecorder::watch(const std::string& phase) {
  if (impl_->timer) return impl_->timer->watch(phase);
  auto& watch = impl_->watches[phase];
  if (!watch) watch = std::make_unique<Impl::PhaseWatch>(*impl_, phase);
  return *watch;
}

void CaseRecorder::set_workload(const std::string& name) {
  impl_->workload = name;
  if (impl_->timer) impl_->timer->set_workload(name);
}

Recording CaseRecorder::result() const {
  Recording out;
  out.cases = impl_->cases;
  out.tensors = impl_->tensors;
  out.bytes = impl_->written;
  if (impl_->timer) out.times = impl_->timer->result();
  for (const auto& [phase, watch] : impl_->watches) {
    for (const auto& [op, of] : watch->ops) {
      out.ops.push_back({.op = op,
                         .phase = phase,
                         .calls = of.calls,
                         .shapes = static_cast<int64_t>(of.shapes.size()),
                         .cases = of.cases});
      const auto add = [&, &o = op, &p = phase](int64_t calls, const std::string& why) {
        if (calls) out.left_out.push_back({.op = o, .phase = p, .calls = calls, .why = why});
      };
      add(of.limit, "other shapes or contents than those of the " + std::to_string(of.cases) +
                        " cases that were kept");
      for (const auto& [why, calls] : of.no_case) add(calls, why);
      add(of.size, "no room in " + human_bytes(impl_->options.bytes_max));
    }
  }
  return out;
}

}  // namespace fk
