// SPDX-License-Identifier: Apache-2.0
// fk_bench [--quick] PLUGIN_DIR NULL_PLUGIN: what the host itself costs, and how fast models run on
// this CPU. Not a test: it prints numbers as JSON, each with its spread, for scripts/bench.sh to
// keep.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <thread>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "test/bench/model_speed.hpp"

namespace {

using fk::Json;

using namespace fk::bench;

Ready on_cpu(const fk::Plugins& plugins, const std::string& provider, const fk::Config& config,
             fk::DType dtype, int64_t context) {
  fk::Session::Options options;
  options.limits.dtype = options.limits.cache_dtype = dtype;
  options.limits.max_batch = 8;
  options.limits.max_context = context;
  options.limits.chunk_tokens = 256;
  options.policy.baselines = {provider};
  return open(plugins, config, "cpu", options);
}

// Sums `words` words, read as four streams, so that one core keeps enough lines in flight.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
uint64_t
sum_of(const uint64_t* data, size_t words) {
  uint64_t sums[32] = {};
  const size_t quarter = words / 4;
  for (size_t i = 0; i + 8 <= quarter; i += 8)
    for (size_t stream = 0; stream < 4; ++stream)
      for (size_t k = 0; k < 8; ++k) sums[stream * 8 + k] += data[stream * quarter + i + k];
  uint64_t all = 0;
  for (const uint64_t v : sums) all += v;
  return all;
}

// A plain read of memory beyond every cache.
class Reader {
 public:
  explicit Reader(int threads)
      : words_((size_t{2} << 30) / 8 / static_cast<size_t>(threads) / 32 * 32) {
    for (int t = 0; t < threads; ++t) parts_.emplace_back(words_, 1);
  }
  // Bytes per second of the fastest of a few rounds: what the machine can give just now.
  double measure() {
    double best = 0;
    for (int round = 0; round < 4; ++round) {
      std::vector<uint64_t> sums(parts_.size());
      const double start = now();
      std::vector<std::thread> pool;
      for (size_t t = 0; t < parts_.size(); ++t)
        pool.emplace_back([&, t] { sums[t] = sum_of(parts_[t].data(), words_); });
      for (auto& thread : pool) thread.join();
      const double took = now() - start;
      for (const uint64_t sum : sums) FK_CHECK(sum == words_, "the read saw every word");
      best = std::max(best, static_cast<double>(words_ * 8 * parts_.size()) / took);
    }
    return best;
  }

 private:
  size_t words_;
  std::vector<std::vector<uint64_t>> parts_;
};

// Nanoseconds of a null forward through the op table, as the program calls it.
Json call_cost(const fk::Plugins& plugins) {
  const fk::Provider& provider = *plugins.of("silu_and_mul").at(0);
  const auto device = fk::open_device("cpu");
  fk::PackedCache packed;
  fk::Frames frames;
  frames.init = {fk_slot{}};
  frames.init[0].i = 8;
  frames.forward = {fk_slot{}, fk_slot{}};
  const fk::Support support = fk::Instance::supports(provider, frames);
  fk::Instance instance(provider, frames, support.need,
                        {*device, packed, nullptr, [](int, const std::string&) {}});
  const auto frame = instance.fitted(fk::SectionId::forward, frames.forward);
  fk_ctx ctx{};
  ctx.struct_size = FK_END(fk_ctx, error);
  std::vector<double> samples;
  for (int round = 0; round < 21; ++round) {
    const double start = now();
    for (int i = 0; i < 1000000; ++i) (void)instance.forward(frame.data(), ctx);
    samples.push_back((now() - start) / 1e6);
  }
  return spread(samples, 1e9);
}

// Host time per node and step of a decode graph whose ops do nothing, a changed context length
// included.
Json node_cost(const fk::Plugins& plugins) {
  Ready r = on_cpu(plugins, "null", llama(256, 512, 32, 8, 2, 32, 1024), fk::DType::f32, 256);
  fk::Program& decode = r.session->phase("decode");
  const int batch = decode.axis("B"), width = decode.axis("W");
  std::vector<double> samples;
  for (int round = 0; round < 201; ++round) {
    const double start = now();
    for (int i = 0; i < 100; ++i) {
      decode.bind(batch, 1 + i % 8);
      if (width >= 0) decode.bind(width, 1 + i % 4);
      decode.run();
    }
    samples.push_back((now() - start) / 100 / static_cast<double>(decode.nodes().size()));
  }
  Json out = spread(samples, 1e9);
  out["nodes"] = decode.nodes().size();
  return out;
}

int main_of(bool quick, const std::string& dir, const std::string& null_plugin) {
  const fk::Catalog catalog(fk::paths::registry_dirs());
  Json out = {{"schema", "fk-host.fk_bench/1"}};
  {
    fk::Plugins null(catalog);
    null.load(null_plugin, fk::Trust::baseline);
    out["null_call_ns"] = call_cost(null);
    out["host_per_node_ns"] = node_cost(null);
  }
  const int threads = fk::open_device("cpu")->cpu_threads();
  out["threads"] = threads;
  Reader reader(threads);
  std::vector<double> reads;
  fk::Plugins plugins(catalog);
  for (const char* name : {"cpu", "reference"})
    plugins.load(dir + "/" + name + ".so", fk::Trust::baseline);
  Json models = Json::array();
  const auto add = [&](const char* model, const char* provider, fk::DType dtype,
                       const fk::Config& config, int64_t prompt, int64_t output,
                       const std::vector<int>& batches = {1, 8}) {
    Ready r = on_cpu(plugins, provider, config, dtype, prompt + output);
    drive(r, 1, prompt, 2);  // first touches
    for (const int batch : batches) {
      Json row = {{"model", model},
                  {"provider", provider},
                  {"dtype", std::string(fk::name(dtype))},
                  {"weights_bytes", r.session->bytes().weights}};
      // The read is measured on both sides of the model, so that both see the same machine.
      const double before = reader.measure();
      row.update(drive(r, batch, prompt, output));
      const double read = (before + reader.measure()) / 2;
      row["read_bytes_per_s"] = read;
      reads.push_back(read);
      models.push_back(std::move(row));
    }
  };
  const fk::Config tiny = llama(128, 256, 3, 8, 2, 32, 1024),
                   large = llama(2048, 8192, 16, 32, 8, 64, 128256);
  add("tiny", "reference", fk::DType::f32, tiny, 64, 33);
  add("tiny", "cpu", fk::DType::f32, tiny, 64, 129);
  if (!quick) {
    add("1b", "cpu", fk::DType::bf16, large, 128, 33);
    add("1b", "cpu", fk::DType::f32, large, 128, 17);
    add("1b", "reference", fk::DType::bf16, large, 8, 5, {1});  // seconds per token
  }
  out["read_bytes_per_s"] = spread(reads, 1);
  out["models"] = std::move(models);
  std::printf("%s\n", out.dump(1).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  if (argc != 3 + quick) {
    std::fprintf(stderr, "usage: fk_bench [--quick] PLUGIN_DIR NULL_PLUGIN\n");
    return 2;
  }
  int code = 1;
  try {
    code = main_of(quick, argv[1 + quick], argv[2 + quick]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fk_bench: %s\n", e.what());
  }
  std::fflush(nullptr);
  ::_exit(code);  // plugins stay mapped to the end
}
