// SPDX-License-Identifier: Apache-2.0
#include "core/deploy/shim/op_instances.hpp"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/error.hpp"

namespace fk::shim {
namespace {

constexpr int64_t kAlignment = 256;  // bytes, of memory that a plugin is lent
constexpr size_t kMostWeights = 4096;

// Makes a device current as long as it lives.
class CurrentDevice {
 public:
  CurrentDevice(int32_t type, int32_t id) {
    if (type != FK_CUDA) return;
    need(torch().cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ == id) before_ = -1;
    if (before_ >= 0) need(torch().cudaSetDevice(id), "cudaSetDevice");
  }
  ~CurrentDevice() {
    if (before_ >= 0) torch().cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;

 private:
  int32_t before_ = -1;
};

void log_line(const fk_host*, int32_t severity, const char* text) {
  if (severity >= FK_LOG_WARNING) std::fprintf(stderr, "fk: %s\n", text);
}

int32_t no_child(const fk_host*, const fk_contract*, const void*, const void*, const void*,
                 fk_child**, fk_error* error) {
  return fk_refuse(error, "the op needs ops of lower levels, which a package does not have");
}

fk_host host_of(const OpCall& call) {
  uint32_t threads = 1;
  torch().torch_get_num_threads(&threads);
  fk_host host{};
  host.struct_size = FK_END(fk_host, child_forward);
  host.minor = FK_ABI_MINOR;
  host.device_type = call.device_type;
  host.device_id = call.device_id;
  host.cpu_threads = static_cast<int32_t>(threads);
  host.log = log_line;
  host.child = no_child;
  return host;
}

fk_error empty_error() {
  fk_error error{};
  error.struct_size = FK_END(fk_error, text);
  return error;
}

// The view with other extents and without data.
void copy_meta(const TensorView& from, const int64_t* shape, TensorView& to) {
  to.view = from.view;
  to.view.data = nullptr;
  std::copy(shape, shape + from.view.ndim, to.dims);
  to.view.shape = to.dims;
  to.torch_dtype = from.torch_dtype;
  to.dtype = from.dtype;
  finish_view(to, from.dense ? nullptr : from.strides);
}

std::vector<Field> meta_of(const std::vector<Field>& fields) {
  std::vector<Field> out(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    out[i].given = fields[i].given;
    out[i].scalar = fields[i].scalar;
    out[i].ints = fields[i].ints;
    for (const auto& v : fields[i].views) copy_meta(v, v.view.shape, out[i].views.emplace_back());
  }
  return out;
}

struct CallStream {
  void* stream = nullptr;
  bool capturing = false;
};

CallStream stream_of(const OpCall& call) {
  CallStream out;
  if (call.device_type != FK_CUDA) return out;
  const Torch& t = torch();
  int32_t status = 0;
  need(t.aoti_torch_get_current_cuda_stream(call.device_id, &out.stream), "the current stream");
  need(t.cudaStreamIsCapturing(out.stream, &status), "cudaStreamIsCapturing");
  out.capturing = status != 0;
  return out;
}

}  // namespace

InstanceMemory::InstanceMemory(int32_t device_type, int64_t bytes)
    : device_type_(device_type), bytes_(bytes) {
  const auto size = static_cast<size_t>((bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (size == 0) return;
  if (device_type == FK_CPU) {
    data_ = std::aligned_alloc(kAlignment, size);
    if (data_) std::memset(data_, 0, size);
  } else if (torch().cudaMalloc(&data_, size) == 0) {
    need(torch().cudaMemset(data_, 0, size), "cudaMemset");
  }
  if (!data_) fail("fk", "no memory for " + std::to_string(bytes) + " bytes of an instance");
}

InstanceMemory::~InstanceMemory() {
  if (!data_) return;
  if (device_type_ == FK_CPU)
    std::free(data_);
  else
    torch().cudaFree(data_);
}

void OpInstance::make_max(const OpCall& call, bool round_up) {
  Axes largest;
  for (size_t a = 0; a < call.axes.size(); ++a) {
    int64_t value = call.axes[a];
    if (value < 0) continue;
    if (!schema_.fixed[a]) {
      value = std::max<int64_t>(value, 1);
      if (round_up) value = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value)));
    }
    largest[schema_.axes[a]] = value;
  }
  max_ = std::vector<Field>(call.fields[2].size());
  for (size_t i = 0; i < max_.size(); ++i) {
    const Field& field = call.fields[2][i];
    const OpSlot& slot = schema_.slots[2][i];
    max_[i].given = field.given;
    max_[i].scalar = field.scalar;
    if (slot.kind == Kind::integer && round_up)
      max_[i].scalar.i = static_cast<int64_t>(
          std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(field.scalar.i, 1))));
    for (const auto& v : field.views) {
      int64_t shape[8];
      for (int d = 0; d < v.view.ndim; ++d)
        shape[d] =
            slot.list.empty() ? slot.shape[static_cast<size_t>(d)].eval(largest) : v.view.shape[d];
      copy_meta(v, shape, max_[i].views.emplace_back());
    }
  }
}

OpInstance::OpInstance(OpCall& call, bool round_up, std::shared_ptr<InstanceMemory> packed)
    : schema_(call.schema),
      host_(host_of(call)),
      error_(empty_error()),
      packed_(std::move(packed)) {
  const fk_op& op = *schema_.op;
  make_max(call, round_up);
  const auto bare_weights = meta_of(call.fields[1]);
  const FrameStorage init(schema_.slots[0], call.fields[0]), bare(schema_.slots[1], bare_weights),
      max(schema_.slots[2], max_);
  need_.struct_size = FK_END(fk_need, plan);
  if (op.supports(init.data(), bare.data(), max.data(), &need_, &error_) != FK_OK)
    fail("fk::" + schema_.name, std::string("the plugin refuses the call: ") + error_.text);
  init_ = meta_of(call.fields[0]);
  weights_.resize(call.fields[1].size());
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_[i].given = call.fields[1][i].given;
    for (size_t k = 0; k < call.fields[1][i].views.size(); ++k) {
      const TensorView& from = call.fields[1][i].views[k];
      weights_[i].tensors.push_back(call.fields[1][i].tensors[k].copy());
      copy_meta(from, from.view.shape, weights_[i].views.emplace_back());
      weights_[i].views.back().view.data = from.view.data;
    }
  }
  init_frame_ = std::make_unique<FrameStorage>(schema_.slots[0], init_);
  weights_frame_ = std::make_unique<FrameStorage>(schema_.slots[1], weights_);
  const bool fill = !packed_ || packed_->bytes() != need_.packed;
  if (fill) packed_ = std::make_shared<InstanceMemory>(call.device_type, need_.packed);
  persistent_ = std::make_unique<InstanceMemory>(call.device_type, need_.persistent);
  plan_ = std::make_unique<InstanceMemory>(call.device_type, need_.plan);
  // prepare() may use streams of its own: weights are filled before it, and its work is waited for.
  if (call.device_type == FK_CUDA) need(torch().cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  need_ok(op.create(&host_, init_frame_->data(), weights_frame_->data(), &self_, &error_));
  const fk_memory memory = {
      FK_END(fk_memory, stream), fill ? 0 : 1,     packed_->data(),       need_.packed,
      persistent_->data(),       need_.persistent, stream_of(call).stream};
  const int32_t status = op.prepare(self_, max.data(), &memory, &error_);
  if (status != FK_OK) {
    op.destroy(self_);
    self_ = nullptr;
  }
  need_ok(status);
  if (call.device_type == FK_CUDA) need(torch().cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

OpInstance::~OpInstance() {
  if (self_) schema_.op->destroy(self_);
}

void OpInstance::need_ok(int32_t status) const {
  if (status == FK_OK) return;
  fail("fk::" + schema_.name,
       error_.text[0] ? error_.text : "status " + std::to_string(status) + " without a reason");
}

bool OpInstance::fits(const OpCall& call) const {
  for (size_t i = 0; i < max_.size(); ++i) {
    const Field& field = call.fields[2][i];
    if (schema_.slots[2][i].kind == Kind::integer && field.scalar.i > max_[i].scalar.i)
      return false;
    if (field.views.size() != max_[i].views.size()) return false;
    for (size_t k = 0; k < field.views.size(); ++k)
      for (int d = 0; d < field.views[k].view.ndim; ++d)
        if (field.views[k].view.shape[d] > max_[i].views[k].view.shape[d]) return false;
  }
  return true;
}

void OpInstance::plan(const OpCall& call, void* stream) {
  const auto& slots = schema_.slots[3];
  std::vector<Field> fields(slots.size());
  std::vector<std::vector<std::byte>> copies;
  bool copied = false;
  for (size_t i = 0; i < slots.size(); ++i) {
    const OpSlot* const forward = schema_.find(Section::forward, slots[i].name);
    if (!forward) fail("fk::" + schema_.name, "plan() reads " + slots[i].name + ", no field of it");
    const Field& from = call.fields[2][static_cast<size_t>(forward->index)];
    fields[i].given = from.given;
    fields[i].scalar = from.scalar;
    for (const auto& v : from.views) {
      TensorView& to = fields[i].views.emplace_back();
      copy_meta(v, v.view.shape, to);
      to.view.device_type = FK_CPU;
      to.view.device_id = 0;
      to.view.data = v.view.data;
      if (v.view.device_type == FK_CPU || v.view.nbytes == 0) continue;
      auto& bytes = copies.emplace_back(static_cast<size_t>(v.view.nbytes));
      need(torch().cudaMemcpyAsync(bytes.data(), v.view.data, bytes.size(), 2, stream),
           "copying what plan() reads");
      to.view.data = bytes.data();
      copied = true;
    }
  }
  if (copied) need(torch().cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  std::vector<std::byte> blob(static_cast<size_t>(std::max<int64_t>(need_.plan, 1)));
  int64_t bytes = need_.plan;
  const FrameStorage frame(slots, fields);
  need_ok(schema_.op->plan_or_null(self_, frame.data(), blob.data(), &bytes, &error_));
  if (bytes < 0 || bytes > need_.plan)
    fail("fk::" + schema_.name, "plan() says that it wrote " + std::to_string(bytes) + " bytes");
  if (bytes > 0 && call.device_type == FK_CPU)
    std::memcpy(plan_->data(), blob.data(), static_cast<size_t>(bytes));
  else if (bytes > 0)
    need(torch().cudaMemcpyAsync(plan_->data(), blob.data(), static_cast<size_t>(bytes), 1, stream),
         "copying the plan");
  planned_ = bytes;
}

void OpInstance::forward(const OpCall& call, void* stream) {
  const Torch& t = torch();
  TensorHandle scratch;
  void* memory = nullptr;
  if (need_.scratch > 0) {  // of torch's pool: a graph keeps what it needs
    const int64_t bytes = need_.scratch + kAlignment, one = 1;
    Handle handle = nullptr;
    need(t.aoti_torch_empty_strided(1, &bytes, &one, t.aoti_torch_dtype_uint8(),
                                    call.device_type == FK_CUDA ? t.aoti_torch_device_type_cuda()
                                                                : t.aoti_torch_device_type_cpu(),
                                    call.device_id, &handle),
         "making scratch memory");
    scratch = TensorHandle(handle);
    need(t.aoti_torch_get_data_ptr(handle, &memory), "reading a tensor");
    const auto address = reinterpret_cast<uintptr_t>(memory);
    memory = reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
  }
  error_.text[0] = 0;
  fk_ctx ctx{};
  ctx.struct_size = FK_END(fk_ctx, error);
  ctx.device_id = call.device_id;
  ctx.stream = stream;
  ctx.scratch = memory;
  ctx.scratch_bytes = need_.scratch;
  ctx.plan = planned_ > 0 ? plan_->data() : nullptr;
  ctx.plan_bytes = std::max<int64_t>(planned_, 0);
  ctx.error = &error_;
  const FrameStorage frame(schema_.slots[2], call.fields[2]);
  need_ok(schema_.op->forward(self_, frame.data(), &ctx));
}

OpInstance& OpInstances::instance_of(OpCall& call, bool capturing) {
  auto& list = instances_[call.key];
  for (const auto& one : list)
    if (one->fits(call)) return *one;
  if (capturing)
    fail("fk::" + schema_.name, "no instance has these shapes yet",
         "call it once with them before the capture");
  auto found = packed_.find(call.weights_key);
  if (found == packed_.end() && packed_.size() >= kMostWeights)
    fail(
        "fk::" + schema_.name,
        "it was called with " + std::to_string(kMostWeights) + " different weights, which it keeps",
        "pass the same weights in each call, or forget() old ones");
  const auto packed = found == packed_.end() ? nullptr : found->second;
  std::unique_ptr<OpInstance> made;
  if (!list.empty()) {  // a growing size: some room saves the next instances
    try {
      made = std::make_unique<OpInstance>(call, true, packed);
    } catch (const Error&) {  // the plugin refuses the room, and perhaps not the call
    }
  }
  if (!made) made = std::make_unique<OpInstance>(call, false, packed);
  packed_[call.weights_key] = made->packed();
  list.push_back(std::move(made));
  return *list.back();
}

void OpInstances::execute(OpCall& call) {
  const CurrentDevice device(call.device_type, call.device_id);
  const CallStream on = stream_of(call);
  if (on.capturing && schema_.op->claims->graph == FK_GRAPH_NEVER)
    fail("fk::" + schema_.name, "the plugin says that the op cannot be captured");
  const std::lock_guard lock(mutex_);
  OpInstance& instance = instance_of(call, on.capturing);
  if (schema_.plans()) {
    if (!on.capturing && !call.planned)
      instance.plan(call, on.stream);
    else if (!instance.is_planned())
      fail("fk::" + schema_.name, "it was never planned for these shapes",
           "call fk::" + schema_.name + "_plan before");
  }
  instance.forward(call, on.stream);
}

void OpInstances::run(Value* stack, uint64_t, uint64_t) {
  run_allocating(stack, schema_.arguments);
}

void OpInstances::run_update(Value* stack, uint64_t, uint64_t) {
  run_allocating(stack, schema_.updating);
}

void OpInstances::run_allocating(Value* stack, const std::vector<Argument>& arguments) {
  OpCall call(schema_, arguments, stack, false);
  call.check();
  call.complete();
  execute(call);
  for (size_t i = 0; i < schema_.outs.size(); ++i) {
    auto& field = call.fields[2][static_cast<size_t>(schema_.outs[i]->index)];
    stack[i] = reinterpret_cast<Value>(field.tensors.front().release());
  }
}

void OpInstances::run_out(Value* stack, uint64_t, uint64_t) {
  OpCall call(schema_, schema_.with_out, stack, false);
  call.check();
  call.complete();
  execute(call);
}

void OpInstances::run_plan(Value* stack, uint64_t, uint64_t) {
  OpCall call(schema_, schema_.arguments, stack, true);
  call.check();
  call.complete();
  const CurrentDevice device(call.device_type, call.device_id);
  const CallStream on = stream_of(call);
  if (on.capturing)
    fail("fk::" + schema_.name + "_plan", "it runs on the host, so a graph cannot capture it",
         "call it before each replay");
  const std::lock_guard lock(mutex_);
  instance_of(call, false).plan(call, on.stream);
}

void OpInstances::forget() {
  const std::lock_guard lock(mutex_);
  if (schema_.op->claims->device_type == FK_CUDA && !instances_.empty())
    need(torch().cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  instances_.clear();
  packed_.clear();
}

}  // namespace fk::shim
