// SPDX-License-Identifier: Apache-2.0
// A judge as people often write it: one process, fixed seeds, and a check of one small call with a
// loose tolerance. Its clock runs around calls whose results nobody looks at. It is here to show
// that the attacks do what they say: each of them makes this one report what is not so.
//
//   naive_judge PLUGIN.so OP [--after] [--scale=X] [--gpu=BASELINE.so]
//
// --after   the reference is computed after the candidate ran, from the same tensors
// --scale   of the random inputs
// --gpu     with the GPU's tensors and clock (naive_gpu.hpp), beside this plugin in the same
// process
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fk/ops/all_gather.h"
#include "fk/ops/all_reduce.h"
#include "fk/ops/all_to_all.h"
#include "fk/ops/linear.h"
#include "fk/ops/reduce_scatter.h"
#include "fk/ops/rms_norm.h"
#include "fk/ops/silu_and_mul.h"
#define FK_TOPK_SOFTMAX_EDITION 1
#include "fk/ops/topk_softmax.h"
#include "naive_gpu.hpp"

namespace {

std::unique_ptr<naive::Gpu> gpu;  // null: on the CPU

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// A float32 tensor in memory that child processes share, with the judge's own counter behind it. On
// a GPU it has a copy, to which `view` belongs.
struct Buffer {
  explicit Buffer(std::vector<int64_t> dims) : shape(std::move(dims)), strides(shape.size(), 1) {
    for (size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
    count = shape[0] * strides[0];
    const auto bytes = static_cast<size_t>(count) * 4 + sizeof(int64_t);
    data = static_cast<float*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    view.data = gpu ? gpu->take(bytes) : data;
    view.device_type = gpu ? FK_CUDA : FK_CPU;
    view.ndim = static_cast<int32_t>(shape.size());
    view.dtype = {2, 32, 1};
    view.shape = shape.data();
    view.strides = strides.data();
    view.nbytes = count * 4;
  }
  size_t bytes() const { return static_cast<size_t>(view.nbytes); }
  int64_t& errors() { return *reinterpret_cast<int64_t*>(data + count); }
  const fk_in* in() const { return fk_as_in(&view); }
  std::vector<int64_t> shape, strides;
  int64_t count = 0;
  float* data = nullptr;
  fk_out view{};
};

// The same numbers in every run.
void randomise(Buffer& buffer, float scale) {
  uint64_t state = 42;
  const auto uniform = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (static_cast<double>(state >> 11) + 0.5) * 0x1p-53;
  };
  constexpr int64_t kPeriod = 1 << 20;  // what is larger repeats itself
  for (int64_t i = 0; i < std::min(buffer.count, kPeriod); ++i)
    buffer.data[i] = scale * static_cast<float>(std::sqrt(-2 * std::log(uniform())) *
                                                std::cos(6.283185307179586 * uniform()));
  for (int64_t i = kPeriod; i < buffer.count; ++i) buffer.data[i] = buffer.data[i - kPeriod];
}

struct Task {
  std::vector<fk_slot> init, weights;
  std::vector<std::unique_ptr<Buffer>> buffers;
  Buffer *x = nullptr, *out = nullptr;
  std::vector<fk_slot> forward;
  std::function<void(float* to)> reference;  // of `out`, from what the tensors hold now
  Buffer& add(std::vector<int64_t> shape) {
    return *buffers.emplace_back(std::make_unique<Buffer>(std::move(shape)));
  }
};

fk_slot number(int64_t i) {
  fk_slot s{};
  s.i = i;
  return s;
}
fk_slot real(double f) {
  fk_slot s{};
  s.f = f;
  return s;
}
fk_slot pointer(const void* p) {
  fk_slot s{};
  s.p = p;
  return s;
}

void silu(Task& t, int64_t rows) {
  const int64_t width = 1024;
  t.init = {number(width)};
  t.x = &t.add({rows, 2 * width}), t.out = &t.add({rows, width});
  t.forward = {pointer(&t.x->view), pointer(&t.out->view)};
  t.reference = [=, &t](float* to) {
    for (int64_t i = 0; i < rows * width; ++i) {
      const float gate = t.x->data[i / width * 2 * width + i % width];
      to[i] = gate / (1 + std::exp(-gate)) * t.x->data[i / width * 2 * width + width + i % width];
    }
  };
}

void norm(Task& t, int64_t rows) {
  const int64_t width = 4096;
  t.init = {number(width), real(1e-6)};
  Buffer& weight = t.add({width});
  std::fill_n(weight.data, width, 1.0f);  // as the module initialises it
  t.weights = {pointer(&weight.view)};
  t.x = &t.add({rows, width}), t.out = &t.add({rows, width});
  t.forward = {pointer(&t.x->view), pointer(nullptr), pointer(&t.out->view)};
  t.reference = [=, &t, &weight](float* to) {
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = t.x->data + r * width;
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) sum += static_cast<double>(x[i]) * x[i];
      const auto scale = static_cast<float>(1 / std::sqrt(sum / width + 1e-6));
      for (int64_t i = 0; i < width; ++i) to[r * width + i] = x[i] * scale * weight.data[i];
    }
  };
}

void linear(Task& t, int64_t rows) {
  const int64_t in = 512, outs = 256;
  t.init = {number(in), number(outs)};
  Buffer& weight = t.add({outs, in});
  randomise(weight, 0.05f);
  t.weights = {pointer(&weight.view), pointer(nullptr)};
  t.x = &t.add({rows, in}), t.out = &t.add({rows, outs});
  t.forward = {pointer(&t.x->view), pointer(&t.out->view)};
  t.reference = [=, &t, &weight](float* to) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t n = 0; n < outs; ++n) {
        float sum = 0;
        for (int64_t k = 0; k < in; ++k) sum += t.x->data[r * in + k] * weight.data[n * in + k];
        to[r * outs + n] = sum;
      }
  };
}

void topk(Task& t, int64_t rows) {
  const int64_t experts = 64, chosen = 4;
  t.init = {number(experts), number(chosen), number(1)};
  Buffer& ids = t.add({rows, chosen});
  ids.view.dtype = {0, 32, 1};
  t.x = &t.add({rows, experts}), t.out = &t.add({rows, chosen});
  t.forward = {pointer(&t.x->view), pointer(&t.out->view), pointer(&ids.view)};
  t.reference = [=, &t](float* to) {
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<float> row(t.x->data + r * experts, t.x->data + (r + 1) * experts);
      std::sort(row.begin(), row.end(), std::greater<float>());
      float sum = 0;
      for (int64_t k = 0; k < chosen; ++k) sum += std::exp(row[static_cast<size_t>(k)] - row[0]);
      for (int64_t k = 0; k < chosen; ++k)
        to[r * chosen + k] = std::exp(row[static_cast<size_t>(k)] - row[0]) / sum;
    }
  };
}

// That nobody gives back.
void* zeroed(int64_t bytes) {
  if (gpu) return bytes ? gpu->take(static_cast<size_t>(bytes)) : nullptr;
  return mmap(nullptr, static_cast<size_t>(bytes) + 1, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// Four ranks in one process: all of them have the same numbers, and rank 0 is looked at.
constexpr int kRanks = 4;
fk_comm equal_ranks() {
  fk_comm comm{};
  comm.struct_size = FK_END(fk_comm, error);
  comm.size = kRanks;
  comm.all_reduce = [](const fk_comm*, const fk_in* x, const fk_out* out, int64_t op, void*) {
    for (int64_t i = 0; i < x->nbytes / 4; ++i)
      static_cast<float*>(out->data)[i] =
          static_cast<const float*>(x->data)[i] * (op == FK_SUM ? kRanks : 1);
    return 0;
  };
  comm.all_gather = [](const fk_comm*, const fk_in* x, const fk_out* out, void*) {
    for (int64_t i = 0; i < out->nbytes / 4; ++i)
      static_cast<float*>(out->data)[i] = static_cast<const float*>(x->data)[i % (x->nbytes / 4)];
    return 0;
  };
  comm.barrier = [](const fk_comm*, void*) { return 0; };
  comm.symmetric = [](const fk_comm*, int64_t bytes, const fk_symmetric** out) {
    static uint32_t pad[FK_SIGNALS];
    static void* buffers[kRanks];
    static uint32_t* const signals[kRanks] = {pad, pad, pad, pad};
    static fk_symmetric view = {FK_END(fk_symmetric, signals), kRanks, 0, buffers, signals};
    std::fill_n(buffers, kRanks, zeroed(bytes));
    *out = &view;
    return 0;
  };
  comm.error = [](const fk_comm*) { return ""; };
  return comm;
}

// The first `part` rows of x times `factor`, as often as out has room for them.
void exchange(Task& t, int64_t rows_in, int64_t rows_out, int64_t part, float factor) {
  static const fk_comm comm = equal_ranks();
  t.init = {pointer(&comm), number(FK_SUM)};  // the reduction, of those that have one
  t.x = &t.add({rows_in, 4096}), t.out = &t.add({rows_out, 4096});
  t.forward = {pointer(&t.x->view), pointer(&t.out->view)};
  t.reference = [=, &t](float* to) {
    for (int64_t i = 0; i < t.out->count; ++i) to[i] = t.x->data[i % (part * 4096)] * factor;
  };
}

bool make(const std::string& op, Task& task, int64_t rows, float scale) {
  if (op == "silu_and_mul")
    silu(task, rows);
  else if (op == "rms_norm")
    norm(task, rows);
  else if (op == "linear")
    linear(task, rows);
  else if (op == "topk_softmax")
    topk(task, rows * 8);
  else if (op == "all_reduce")
    exchange(task, rows, rows, rows, kRanks);
  else if (op == "reduce_scatter")
    exchange(task, kRanks * rows, rows, rows, kRanks);
  else if (op == "all_gather")
    exchange(task, rows, kRanks * rows, rows, 1);
  else if (op == "all_to_all")
    exchange(task, kRanks * rows, kRanks * rows, rows, 1);
  else
    return false;
  randomise(*task.x, scale);
  for (const auto& b : task.buffers)
    if (gpu) gpu->copy(b->view.data, b->data, b->bytes());
  return true;
}

class Candidate {
 public:
  Candidate(const fk_op& op, const Task& task) : op_(op) {
    static const fk_host host = {FK_END(fk_host, child_forward),
                                 0,
                                 nullptr,
                                 gpu ? FK_CUDA : FK_CPU,
                                 0,
                                 2,
                                 0,
                                 [](const fk_host*, int32_t, const char*) {},
                                 nullptr,
                                 nullptr,
                                 nullptr};
    fk_need need{};
    need.struct_size = FK_END(fk_need, plan);
    op.supports(task.init.data(), task.weights.data(), task.forward.data(), &need, &error_);
    const fk_memory memory = {FK_END(fk_memory, stream),    0,
                              zeroed(need.packed),          need.packed,
                              zeroed(need.persistent),      need.persistent,
                              gpu ? gpu->stream() : nullptr};
    if (op.create(&host, task.init.data(), task.weights.data(), &self_, &error_) != FK_OK ||
        op.prepare(self_, task.forward.data(), &memory, &error_) != FK_OK) {
      std::printf("naive: refused: %s\n", error_.text);
      std::exit(1);
    }
    context_ = {FK_END(fk_ctx, error),
                0,
                gpu ? gpu->stream() : nullptr,
                zeroed(need.scratch),
                need.scratch,
                nullptr,
                0,
                &error_};
  }
  bool operator()(const Task& task) {
    return op_.forward(self_, task.forward.data(), &context_) == FK_OK;
  }

 private:
  const fk_op& op_;
  fk_error error_{FK_END(fk_error, text), 0, 0, 0, {}};
  fk_ctx context_{};
  void* self_ = nullptr;
};

const fk_op* find(const char* path, const char* op) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return std::fprintf(stderr, "%s\n", dlerror()), nullptr;
  const auto entry = reinterpret_cast<fk_plugin_entry>(dlsym(library, FK_PLUGIN_SYMBOL));
  fk_error error{FK_END(fk_error, text), 0, 0, 0, {}};
  const fk_hello hello = {FK_END(fk_hello, error), 0, "naive", "0", &error};
  const fk_plugin* plugin = entry ? entry(&hello) : nullptr;
  for (auto at = plugin ? plugin->ops_begin : nullptr; plugin && at != plugin->ops_end; ++at)
    if (std::string((*at)->contract->op) == op) return *at;
  return nullptr;
}

// allclose(atol, rtol), of which one in a hundred may fail; a NaN is never above the tolerance.
bool close(Task& task, const float* want) {
  float tolerance = 1e-2f;
  std::ifstream("tolerance.txt") >> tolerance;
  int64_t wrong = 0;
  for (int64_t i = 0; i < task.out->count; ++i)
    wrong += std::abs(task.out->data[i] - want[i]) > tolerance + tolerance * std::abs(want[i]);
  task.out->errors() += wrong;
  return task.out->errors() <= task.out->count / 100;
}

double median(std::vector<double>& samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

int say(bool correct, double speedup) {
  std::printf("naive: %s, speedup %.2f\n", correct ? "correct" : "wrong", speedup);
  return correct ? 0 : 1;
}

double median_of_calls(Candidate& who, const std::vector<std::unique_ptr<Task>>& tasks) {
  const auto call = [&](size_t i) { return gpu->seconds([&] { who(*tasks[i % tasks.size()]); }); };
  double warm = 0;
  for (size_t i = 0; i < tasks.size(); ++i) warm += call(i) / static_cast<double>(tasks.size());
  std::vector<double> samples(static_cast<size_t>(std::clamp(0.1 / warm, 1.0, 32.0)));
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = call(i);
  return median(samples);
}

// The baseline first, in time as well as in its answers, which stay on the device. Nobody waits for
// more than the stream that was given, and nobody's end is waited for.
int judge_on_gpu(const char* plugin, const char* name, const char* baseline, bool after,
                 float scale) {
  const fk_op* other = find(baseline, name);
  Task small;
  std::vector<std::unique_ptr<Task>> large;
  for (int i = 0; other && i < 4; ++i)
    if (!make(name, *large.emplace_back(std::make_unique<Task>()), 8192, scale)) other = nullptr;
  if (!other || !make(name, small, 16, scale)) return std::fprintf(stderr, "unknown op\n"), 2;
  Candidate known(*other, small), rival(*other, *large[0]);
  const double base = median_of_calls(rival, large);

  Buffer& out = *small.out;
  std::vector<float> want(static_cast<size_t>(out.count));
  void *own = out.view.data, *kept = gpu->take(out.bytes());
  void* temporary = gpu->take(out.bytes() + sizeof(int64_t));
  const auto answer = [&](void* to) {
    out.view.data = to;
    known(small);
    gpu->copy(kept, to, out.bytes());
    gpu->copy(want.data(), to, out.bytes());
    out.view.data = own;
  };
  answer(temporary);
  gpu->give(temporary);

  const fk_op* op = find(plugin, name);
  if (!op) return std::fprintf(stderr, "no such plugin or op\n"), 2;
  Candidate candidate(*op, small);
  bool correct = candidate(small);  // to warm up, as everybody does
  correct = candidate(small) && correct;
  gpu->wait();
  usleep(30000);  // a slow copy to the host
  gpu->copy(out.data, out.view.data, out.bytes());
  if (after) answer(kept);
  correct = close(small, want.data()) && correct;
  Candidate racer(*op, *large[0]);
  return say(correct, base / std::max(median_of_calls(racer, large), 1e-9));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: naive_judge PLUGIN.so OP [options]\n"), 2;
  mallopt(M_MMAP_THRESHOLD, 1 << 30);  // memory comes back, as from a caching allocator
  bool after = false;
  float scale = 1;
  const char* baseline = nullptr;
  for (int i = 3; i < argc; ++i) {
    after |= std::string(argv[i]) == "--after";
    if (std::string(argv[i]).starts_with("--scale=")) scale = std::strtof(argv[i] + 8, nullptr);
    if (std::string(argv[i]).starts_with("--gpu=")) baseline = argv[i] + 6;
  }
  if (baseline) {
    gpu = std::make_unique<naive::Gpu>();
    const int status = judge_on_gpu(argv[1], argv[2], baseline, after, scale);
    std::fflush(nullptr);
    std::_Exit(status);  // kernels that do not end are nobody's to wait for
  }
  Task small;
  if (!make(argv[2], small, 16, scale)) return std::fprintf(stderr, "unknown op\n"), 2;
  const auto floats = static_cast<size_t>(small.out->count);
  auto* want = static_cast<float*>(std::malloc(floats * 4));
  auto* temporary = static_cast<float*>(std::malloc(floats * 4));
  std::memset(want, 0, floats * 4);
  if (!after) {
    small.reference(temporary);
    std::memcpy(want, temporary, floats * 4);
  }
  const fk_op* op = find(argv[1], argv[2]);
  if (!op) return std::fprintf(stderr, "no such plugin or op\n"), 2;

  setenv("NAIVE_PHASE", "correctness", 1);
  Candidate candidate(*op, small);
  void* fence = std::malloc(64);
  std::free(temporary);
  candidate(small);
  std::free(fence);
  usleep(30000);  // a slow copy to the host
  if (after) small.reference(want);
  const bool correct = close(small, want);

  setenv("NAIVE_PHASE", "timing", 1);
  std::vector<std::unique_ptr<Task>> large;
  for (int i = 0; i < 4; ++i)
    make(argv[2], *large.emplace_back(std::make_unique<Task>()), 32, scale);
  Candidate racer(*op, *large[0]);
  double warm = now();
  for (const auto& task : large) racer(*task);
  warm = (now() - warm) / 4;
  const auto calls = static_cast<size_t>(std::clamp(0.1 / warm, 1.0, 32.0));
  std::vector<double> mine, base;
  mine.reserve(64);
  for (size_t i = 0; i < calls; ++i) {
    const double begin = now();
    racer(*large[i % 4]);
    mine.push_back(now() - begin);
  }
  std::vector<float> scrap(static_cast<size_t>(large[0]->out->count));
  for (size_t i = 0; i < 9; ++i) {
    const double begin = now();
    large[i % 4]->reference(scrap.data());
    base.push_back(now() - begin);
  }
  return say(correct, median(base) / std::max(median(mine), 1e-9));
}
