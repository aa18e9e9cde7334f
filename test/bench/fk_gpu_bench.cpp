// SPDX-License-Identifier: Apache-2.0
// fk_gpu_bench [--layers N] [--batch N]... [--context N] [--provider NAME]... PLUGIN_DIR: decode
// and prefill of Llama 3.1 8B (or its first layers) on the first GPU with the ranked baselines, in
// this process and without a judge: for work on kernels. Prints JSON.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "core/base/paths.hpp"
#include "core/runtime/ranking.hpp"
#include "test/bench/model_speed.hpp"

namespace {

using namespace fk::bench;

struct Arguments {
  std::string plugins;
  int64_t layers = 32, context = 512, output = 65, max_batch = 256;
  std::vector<int> batches = {1, 32};
  std::vector<std::string> providers = {"cuda", "cublas", "cuda_reference"};
  bool eager = false;
};

fk::Json speed(const Arguments& a) {
  const fk::Catalog catalog(fk::paths::registry_dirs());
  fk::Plugins plugins(catalog);
  for (const auto& name : a.providers)
    plugins.load(a.plugins + "/" + name + ".so", fk::Trust::baseline);
  const int64_t vocab = 128256;
  fk::Session::Options options;
  options.limits.dtype = options.limits.cache_dtype = fk::DType::bf16;
  options.limits.max_batch =
      std::min<int64_t>(a.max_batch, *std::max_element(a.batches.begin(), a.batches.end()));
  options.limits.max_context = a.context + a.output + 16;
  options.limits.chunk_tokens = 8192;
  options.limits.page_size = 16;
  options.policy.baselines = a.providers;
  options.policy.ranking = fk::ranking_of(fk::open_device("cuda:0")->name());
  options.graphs = !a.eager;
  options.decode_sizes = fk::kDecodeSizes;
  Ready r = open(plugins, llama(4096, 14336, a.layers, 32, 8, 128, vocab), "cuda:0", options);
  fk::Json rows = fk::Json::array();
  for (const int batch : a.batches) {
    drive(r, std::min<int>(batch, 32), a.context, 4, vocab);  // first touches, captures
    rows.push_back(drive(r, batch, a.context, a.output, vocab));
  }
  return {{"schema", "fk-host.fk_gpu_bench/1"},
          {"device", r.device->name()},
          {"layers", a.layers},
          {"context", a.context},
          {"weights_bytes", r.session->bytes().weights},
          {"rows", rows}};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app("decode and prefill of Llama 3.1 8B on the first GPU");
  app.add_option("--layers", a.layers);
  app.add_option("--batch", a.batches);
  app.add_option("--context", a.context);
  app.add_option("--output", a.output);
  app.add_option("--max-batch", a.max_batch, "requests that run at the same time");
  app.add_option("--provider", a.providers, "in the order of preference");
  app.add_flag("--no-graph", a.eager);
  app.add_option("PLUGIN_DIR", a.plugins)->required();
  CLI11_PARSE(app, argc, argv);
  int code = 1;
  try {
    std::printf("%s\n", speed(a).dump(1).c_str());
    code = 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fk_gpu_bench: %s\n", e.what());
  }
  std::fflush(nullptr);
  ::_exit(code);  // plugins stay mapped to the end
}
