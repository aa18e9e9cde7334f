// SPDX-License-Identifier: Apache-2.0
// Makes each weight as its WeightSpec says: computed, read from the tensors of a checkpoint, or
// random from the seed. A rank with a part of a weight gets its pieces cut out of the whole.
#include "core/exec/weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <future>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

// Removes dimensions of 1: a depthwise convolution's [C, 1, U] is [C, U].
std::vector<int64_t> inner_axes(const std::vector<int64_t>& shape) {
  std::vector<int64_t> out;
  for (size_t i = 1; i < shape.size(); ++i)
    if (shape[i] != 1) out.push_back(shape[i]);
  return out;
}

// A checkpoint's tensor in the weight's dtype: its own bytes, or a converted copy.
struct Part {
  const std::byte* bytes = nullptr;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<float> copy;
  std::string where;
};

// Replaces a part by the view of it, in f32: a cut along one axis, with axes in another order.
void look_at(const PartView& view, Part& part) {
  const auto rank = view.shape.size();
  const auto axis = static_cast<size_t>(view.axis);
  FK_CHECK(view.order.size() == rank && axis < rank && view.start >= 0 &&
               view.start + view.length <= view.shape[axis],
           "a view of a part that it does not have");
  if (numel(view.shape) != numel(part.shape)) {
    fail(part.where,
         "it is " + shape_text(part.shape) + " and cannot be seen as " + shape_text(view.shape),
         "does config.json belong to this checkpoint?");
  }
  std::vector<int64_t> strides(rank, 1), steps(rank), shape(rank);
  for (size_t i = rank - 1; i > 0; --i) strides[i - 1] = strides[i] * view.shape[i];
  for (size_t i = 0; i < rank; ++i) {
    const auto from = static_cast<size_t>(view.order[i]);
    shape[i] = from == axis ? view.length : view.shape[from];
    steps[i] = strides[from];
  }
  std::vector<float> seen(static_cast<size_t>(numel(shape)));
  for (int64_t i = 0; i < numel(shape); ++i) {
    int64_t at = view.start * strides[axis], rest = i;
    for (size_t a = rank; a-- > 0; rest /= shape[a]) at += rest % shape[a] * steps[a];
    seen[static_cast<size_t>(i)] =
        static_cast<float>(to_double(part.bytes + at * fk::bytes(part.dtype), part.dtype));
  }
  part.copy = std::move(seen);
  part.bytes = reinterpret_cast<const std::byte*>(part.copy.data());
  part.dtype = DType::f32;
  part.shape = std::move(shape);
}

// Part number `index` of a concatenation.
Part part_of(const WeightSpec& spec, const std::vector<std::string>& names, size_t index,
             const Checkpoint& checkpoint) {
  const std::string& name = names[index];
  const auto& tensor = checkpoint.at(name);
  Part part{tensor.bytes.data(), tensor.dtype, tensor.shape, {}, tensor.where};
  if (!takes_unscaled(spec, tensor)) {
    part.copy = checkpoint.scaled(name);
    part.bytes = reinterpret_cast<const std::byte*>(part.copy.data());
    part.dtype = DType::f32;
  }
  if (spec.view) look_at(*spec.view, part);
  if (spec.views.empty()) return part;
  look_at(spec.views.at(index), part);
  // Axes that the view splits rows into are rows again.
  const std::vector<int64_t> inner = inner_axes(spec.shape);
  part.shape = {numel(part.shape) / numel(inner)};
  part.shape.insert(part.shape.end(), inner.begin(), inner.end());
  return part;
}

int64_t first_axis(const std::vector<int64_t>& shape) { return shape.empty() ? 1 : shape[0]; }

// Rows of all named parts.
int64_t rows_of(const WeightSpec& spec, const std::vector<std::string>& names,
                const Checkpoint& checkpoint) {
  int64_t rows = 0;
  for (size_t i = 0; i < names.size(); ++i)
    if (!names[i].empty()) rows += first_axis(part_of(spec, names, i, checkpoint).shape);
  return rows;
}

// Reads one stack entry: checkpoint tensors one after the other along axis 0.
void read_parts(const WeightSpec& spec, const std::vector<std::string>& names,
                const std::vector<int64_t>& shape, const Checkpoint& checkpoint, std::byte* into) {
  int64_t rows = 0;
  const int64_t row = shape.empty() ? 1 : numel(shape) / std::max<int64_t>(shape[0], 1);
  const int64_t total = first_axis(shape);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) {  // zeros in the rows that the other names leave
      const int64_t left = total - rows_of(spec, names, checkpoint);
      if (left < 0 || rows + left > total)
        fail("weight " + spec.name, "no rows are left for zeros");
      std::memset(into + rows * row * bytes(spec.dtype), 0,
                  static_cast<size_t>(left * row * bytes(spec.dtype)));
      rows += left;
      continue;
    }
    const Part tensor = part_of(spec, names, i, checkpoint);
    const int64_t here = first_axis(tensor.shape);
    if (inner_axes(tensor.shape) != inner_axes(shape) || rows + here > total) {
      fail(tensor.where,
           "it is " + shape_text(tensor.shape) + ", which does not fit into row " +
               std::to_string(rows) + " of " + spec.name + " " + shape_text(shape),
           "does config.json belong to this checkpoint?");
    }
    convert(tensor.bytes, tensor.dtype, into + rows * row * bytes(spec.dtype), spec.dtype,
            here * row);
    rows += here;
  }
  if (rows != total) {
    fail("weight " + spec.name,
         "the checkpoint has " + std::to_string(rows) + " rows for " + shape_text(shape));
  }
}

double stddev_of(const WeightSpec& spec) {
  const double last = spec.shape.empty() ? 1 : static_cast<double>(spec.shape.back());
  return spec.stddev != 0 ? spec.stddev : 1 / std::sqrt(std::max(1.0, last));
}

// True when all of a weight is random floats from the seed, which a device can make.
bool is_normal(const WeightSpec& spec, const Checkpoint* checkpoint) {
  return !checkpoint && !spec.compute && !spec.map && !is_integer(spec.dtype);
}

int64_t bytes_of(const WeightSpec& spec) { return numel(spec.local_shape()) * bytes(spec.dtype); }

// Cuts pieces along one axis out of a dense tensor. `width`: bytes of an element. A piece has zeros
// from its `end` on. In the code, `row` has the bytes of one index of the axis.
std::vector<std::byte> cut_out(const std::vector<std::byte>& whole,
                               const std::vector<int64_t>& shape, const WeightCut& cut,
                               int64_t width) {
  const auto axis = static_cast<size_t>(cut.axis);
  int64_t outer = 1, row = width, kept = 0;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) row *= shape[i];
  for (const auto& piece : cut.pieces) kept += piece.length;
  std::vector<std::byte> out(static_cast<size_t>(outer * kept * row));
  std::byte* to = out.data();
  for (int64_t o = 0; o < outer; ++o) {
    const std::byte* from = whole.data() + o * shape[axis] * row;
    for (const auto& piece : cut.pieces) {
      FK_CHECK(piece.start >= 0 && piece.end <= shape[axis], "a piece of the whole weight");
      const int64_t there = std::clamp<int64_t>(piece.end - piece.start, 0, piece.length);
      if (there > 0) std::memcpy(to, from + piece.start * row, static_cast<size_t>(there * row));
      to += piece.length * row;
    }
  }
  return out;
}

// The same within device memory.
void cut_out(Device& device, const std::byte* whole, const std::vector<int64_t>& shape,
             const WeightCut& cut, int64_t width, std::byte* to) {
  const auto axis = static_cast<size_t>(cut.axis);
  int64_t outer = 1, row = width, kept = 0;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) row *= shape[i];
  for (const auto& piece : cut.pieces) kept += piece.length;
  for (const auto& piece : cut.pieces) {
    FK_CHECK(piece.start >= 0 && piece.end <= shape[axis], "a piece of the whole weight");
    const int64_t there = std::clamp<int64_t>(piece.end - piece.start, 0, piece.length);
    // One call for all rows: a model with many experts has a million of them.
    device.copy_rows(to, kept * row, whole + piece.start * row, shape[axis] * row, there * row,
                     outer);
    for (int64_t o = 0; o < outer && there < piece.length; ++o)
      device.fill_zero(to + (o * kept + there) * row, (piece.length - there) * row);
    to += piece.length * row;
  }
}

// Makes random numbers on the device. If this rank has only pieces of a weight, the whole weight is
// made in the memory `beside`, and cut. False when the device cannot make them, or when pieces are
// along several axes.
bool fill_on_device(const WeightSpec& spec, uint64_t seed, Device& device, DeviceMemory& beside,
                    std::byte* into) {
  const auto fill = [&](std::byte* to) {
    return device.fill_normal(to, spec.dtype, numel(spec.shape), seed_of(spec.name, seed),
                              spec.mean, stddev_of(spec));
  };
  if (spec.cuts.empty()) return fill(into);
  if (spec.cuts.size() > 1) return false;
  const int64_t whole = numel(spec.shape) * bytes(spec.dtype);
  if (beside.bytes() < whole) beside = DeviceMemory(device, whole, "a weight to cut");
  if (!fill(beside.data())) return false;
  cut_out(device, beside.data(), spec.shape, spec.cuts[0], bytes(spec.dtype), into);
  return true;
}

void fill_whole(const WeightSpec& spec, const Checkpoint* checkpoint, uint64_t seed,
                std::byte* into, int threads) {
  const int64_t count = numel(spec.shape);
  if (spec.compute && !(checkpoint && spec.in_checkpoint)) {
    const std::vector<double> values = spec.compute();
    if (static_cast<int64_t>(values.size()) != count)
      fail("weight " + spec.name, "its compute() gives " + std::to_string(values.size()) +
                                      " values for the shape " + shape_text(spec.shape));
    for (int64_t i = 0; i < count; ++i)
      from_double(values[static_cast<size_t>(i)], into + i * bytes(spec.dtype), spec.dtype);
  } else if (checkpoint) {
    const auto stack = static_cast<int64_t>(spec.parts.size());
    const bool stacked = spec.stacked || stack > 1;
    std::vector<int64_t> shape(spec.shape.begin() + (stacked ? 1 : 0), spec.shape.end());
    if (stacked && spec.shape[0] != stack) {
      fail("weight " + spec.name,
           "it stacks " + std::to_string(stack) + " parts into " + shape_text(spec.shape));
    }
    for (int64_t s = 0; s < stack; ++s) {
      read_parts(spec, spec.parts[static_cast<size_t>(s)], shape, *checkpoint,
                 into + s * numel(shape) * bytes(spec.dtype));
    }
  } else if (is_integer(spec.dtype)) {
    fill_int(into, spec.dtype, count, seed_of(spec.name, seed), /*offset=*/0, spec.low, spec.high,
             threads);
  } else {
    fill_normal(into, spec.dtype, count, seed_of(spec.name, seed), /*offset=*/0, spec.mean,
                stddev_of(spec), threads);
  }
  if (spec.map) {
    for (int64_t i = 0; i < count; ++i) {
      std::byte* element = into + i * bytes(spec.dtype);
      from_double(spec.map(to_double(element, spec.dtype)), element, spec.dtype);
    }
  }
}

// Fills this rank's part of a weight.
void fill_one(const WeightSpec& spec, const Checkpoint* checkpoint, uint64_t seed, std::byte* into,
              int threads) {
  if (spec.cuts.empty()) return fill_whole(spec, checkpoint, seed, into, threads);
  std::vector<std::byte> all(static_cast<size_t>(numel(spec.shape) * bytes(spec.dtype)));
  fill_whole(spec, checkpoint, seed, all.data(), threads);
  std::vector<int64_t> shape = spec.shape;
  const std::vector<int64_t> local = spec.local_shape();
  for (const auto& cut : spec.cuts) {
    all = cut_out(all, shape, cut, bytes(spec.dtype));
    shape[static_cast<size_t>(cut.axis)] = local[static_cast<size_t>(cut.axis)];
  }
  std::memcpy(into, all.data(), all.size());
}

class PrivateWeights final : public WeightSource {
 public:
  PrivateWeights(const Checkpoint* checkpoint, uint64_t seed, int threads)
      : checkpoint_(checkpoint), seed_(seed), threads_(threads) {}
  const std::byte* block(const WeightTable& table) override {
    const WeightLayout layout(table);
    memory_ =
        SharedMemory::create("fk-weights", static_cast<size_t>(std::max<int64_t>(layout.bytes, 1)));
    fill_weights(table, checkpoint_, seed_, static_cast<std::byte*>(memory_.data()), threads_, {});
    memory_.seal_read_only();
    return static_cast<const std::byte*>(memory_.data());
  }

 private:
  const Checkpoint* checkpoint_;
  uint64_t seed_;
  int threads_;
  SharedMemory memory_;
};

// Sessions with other limits share a block, so shapes may not depend on them. A checkpoint fixes
// the shapes of its tensors; only a computed weight can differ.
void need_bytes(const WeightTable& table, int64_t given, int64_t needed) {
  if (given == needed) return;
  std::vector<std::string> computed;
  for (const auto& spec : table.all())
    if (spec.compute) computed.push_back(spec.name + " " + shape_text(spec.shape));
  constexpr size_t kNamed = 4;
  const std::string more =
      computed.size() > kNamed ? " and " + std::to_string(computed.size() - kNamed) + " more" : "";
  computed.resize(std::min(computed.size(), kNamed));
  fail("weights",
       "the shared block has " + std::to_string(given) + " bytes, this session's weights " +
           std::to_string(needed) +
           (computed.empty() ? "" : "; computed are " + join(computed, ", ")) + more,
       "the shape of a weight must be the same for each max_batch and each number of pages");
}

class SharedWeights final : public WeightSource {
 public:
  explicit SharedWeights(SharedMemory memory) : memory_(std::move(memory)) {}
  const std::byte* block(const WeightTable& table) override {
    need_bytes(table, static_cast<int64_t>(memory_.bytes()),
               std::max<int64_t>(WeightLayout(table).bytes, 1));
    return static_cast<const std::byte*>(memory_.data());
  }

 private:
  SharedMemory memory_;
};

class DeviceWeights final : public WeightSource {
 public:
  DeviceWeights(int fd, int64_t bytes) : fd_(fd), bytes_(bytes) {}
  const std::byte* block(const WeightTable&) override {
    fail("weights", "they are on a device, and the session is not");
  }
  const std::byte* on_device(Device& device, const WeightTable& table) override {
    need_bytes(table, bytes_, WeightLayout(table).bytes);
    return static_cast<const std::byte*>(device.open_shared(fd_, bytes_, Device::Sharing::read));
  }

 private:
  int fd_;
  int64_t bytes_;
};

// Makes weights on the host: several at once, and ahead of the consumer, which takes them in order.
class ReadAhead {
 public:
  using Memory = std::vector<std::byte>;
  // Other threads call `make`. If it throws an Error, next() throws this Error.
  ReadAhead(std::vector<const WeightSpec*> wanted, int at_once,
            std::function<Memory(const WeightSpec&)> make)
      : wanted_(std::move(wanted)),
        at_once_(static_cast<size_t>(at_once)),
        make_(std::move(make)) {}
  Memory next() {
    while (started_ < wanted_.size() && may_start()) {
      const WeightSpec* spec = wanted_[started_++];
      held_ += numel(spec->shape) * bytes(spec->dtype);
      ahead_.push_back(std::async(std::launch::async, [this, spec] { return make_(*spec); }));
    }
    Memory memory = ahead_.front().get();
    ahead_.pop_front();
    const WeightSpec& taken = *wanted_[taken_++];
    held_ -= numel(taken.shape) * bytes(taken.dtype);
    return memory;
  }

 private:
  // bytes of made weights which next() has not taken
  static constexpr int64_t kHeldMax = int64_t{4} << 30;
  bool may_start() const {
    return ahead_.empty() || (ahead_.size() < at_once_ && held_ < kHeldMax);
  }
  std::vector<const WeightSpec*> wanted_;
  size_t at_once_, started_ = 0, taken_ = 0;
  int64_t held_ = 0;
  std::function<Memory(const WeightSpec&)> make_;
  std::deque<std::future<Memory>> ahead_;  // destroyed first, because it uses the members above
};

}  // namespace

std::vector<std::string> tensors_of(const WeightSpec& spec) {
  if (spec.compute && !spec.in_checkpoint) return {};
  if (spec.parts.empty()) return {spec.name};
  std::vector<std::string> names;
  for (const auto& entry : spec.parts)
    for (const auto& name : entry)
      if (!name.empty()) names.push_back(name);
  return names;
}

bool takes_unscaled(const WeightSpec& spec, const StoredTensor& tensor) {
  if (spec.dtype == tensor.dtype) return true;
  if (is_integer(spec.dtype) || spec.dtype == DType::f8e4m3) {
    if (spec.dtype == DType::i64 && is_integer(tensor.dtype)) return true;
    fail(tensor.where, "has dtype " + std::string(name(tensor.dtype)) + ", expected " +
                           std::string(name(spec.dtype)));
  }
  return is_float(tensor.dtype) && bits(tensor.dtype) >= 16;
}

WeightLayout::WeightLayout(const WeightTable& table) {
  for (const auto& spec : table.all()) {
    offsets.push_back(bytes);
    bytes += (bytes_of(spec) + 255) / 256 * 256;
  }
}

void fill_weights(const WeightTable& table, const Checkpoint* checkpoint, uint64_t seed,
                  std::byte* into, int threads, const Progress& progress) {
  const WeightLayout layout(table);
  for (size_t i = 0; i < table.all().size(); ++i) {
    fill_one(table.all()[i], checkpoint, seed, into + layout.offsets[i], threads);
    if (progress)
      progress(i + 1 < layout.offsets.size() ? layout.offsets[i + 1] : layout.bytes, layout.bytes);
  }
}

std::unique_ptr<WeightSource> private_weights(const Checkpoint* checkpoint, uint64_t seed,
                                              int threads) {
  return std::make_unique<PrivateWeights>(checkpoint, seed, threads);
}
void fill_weights(const WeightTable& table, const Checkpoint* checkpoint, uint64_t seed,
                  Device& device, std::byte* into, int threads, const Progress& progress) {
  const WeightLayout layout(table);
  std::vector<bool> made(table.all().size());
  std::vector<const WeightSpec*> from_host;
  DeviceMemory beside;
  for (size_t i = 0; i < made.size(); ++i) {
    const WeightSpec& spec = table.all()[i];
    made[i] = is_normal(spec, checkpoint) &&
              fill_on_device(spec, seed, device, beside, into + layout.offsets[i]);
    if (!made[i]) from_host.push_back(&spec);
  }
  ReadAhead ahead(std::move(from_host), std::max(1, threads), [&](const WeightSpec& spec) {
    ReadAhead::Memory memory(static_cast<size_t>(bytes_of(spec)));
    fill_one(spec, checkpoint, seed, memory.data(), threads);
    return memory;
  });
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i]) {
      const auto memory = ahead.next();
      device.upload(into + layout.offsets[i], memory.data(), static_cast<int64_t>(memory.size()));
    }
    if (progress)
      progress(i + 1 < layout.offsets.size() ? layout.offsets[i + 1] : layout.bytes, layout.bytes);
  }
  device.synchronize();
}
std::unique_ptr<WeightSource> device_weights(int fd, int64_t bytes) {
  return std::make_unique<DeviceWeights>(fd, bytes);
}
std::unique_ptr<WeightSource> shared_weights(SharedMemory memory) {
  return std::make_unique<SharedWeights>(std::move(memory));
}

}  // namespace fk
