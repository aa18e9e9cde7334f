// SPDX-License-Identifier: Apache-2.0
// Usage: fk_gpu_bench [--config NAME] [--layers N] [--batch N]... [--context N] [--provider
// NAME]... PLUGIN_DIR. It measures decode and prefill of Llama 3.1 8B or another model (or its
// first layers). It uses the ranked baselines on the first GPU, in this process and without a
// judge. It serves work on kernels. Prints JSON; with --profile also which kernels took how long,
// in runs whose times then say less.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "core/base/clock.hpp"
#include "core/base/machine.hpp"
#include "core/base/paths.hpp"
#include "core/exec/model.hpp"
#include "core/exec/ranking.hpp"
#include "core/scenario/memory_budget.hpp"
#include "core/scenario/run_memory_budget.hpp"
#include "test/bench/kernel_times.hpp"
#include "test/bench/model_speed.hpp"

namespace {

using namespace fk::bench;

struct Arguments {
  std::string command = "fk_gpu_bench";  // as it was given
  std::string plugins, config = "llama-3.1-8b";
  int64_t layers = 0, context = 512, output = 65, max_batch = 256;
  std::vector<int> batches;
  std::vector<std::string> providers = {"cuda", "cudnn", "flashinfer", "cublas", "cuda_reference"};
  bool eager = false, profile = false;
};

fk::Config config_of(const Arguments& a) {
  const fk::Config whole =
      fk::Config::load(fk::paths::home() / "registry" / "configs" / (a.config + ".json"));
  return a.layers ? whole.with({{"num_hidden_layers", a.layers}}) : whole;
}

fk::Session::Options options_of(const Arguments& a) {
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
  return options;
}

// Takes as many pages as fit beside the weights, which are not there yet. The error for a model
// that is too large is that of `fk-host run`.
std::optional<fk::Json> fit(const fk::Catalog& catalog, const fk::Config& config,
                            fk::Session::Options& options, int64_t longest) {
  const auto model = fk::make_model(fk::arch_of(config), config);
  auto device = *fk::room_of("cuda:0");
  device.free -= fk::weights_bytes(*model, catalog, options.limits);
  const auto found = fk::RunMemoryBudget(*model, catalog, options.limits, longest).pages(device, 1);
  if (found.too_large)
    return fk::Json{{"too_large",
                     {{"what", found.too_large->what},
                      {"needs_bytes", found.too_large->needs_bytes},
                      {"device_bytes", found.too_large->device_bytes}}}};
  if (!found.why.empty()) fk::fail(device.name, found.why);
  options.limits.pages = found.pages;
  return std::nullopt;
}

// The steps of one phase alone: a prefill, or the decoding after it.
fk::Json profile(KernelTimes& times, Ready& r, int batch, int64_t context, int64_t output) {
  const auto synchronized = [&](int64_t tokens) {
    times.restart();
    const fk::Json row = drive(r, batch, context, tokens);
    r.device->synchronize();
    fk::Json table = times.table();
    table["batch"] = batch, table["tokens"] = tokens;
    if (tokens > 1) table["decode_step_ms"] = row["decode_step_ms"];
    return table;
  };
  return {{"prefill", synchronized(1)}, {"with_decode", synchronized(output)}};
}

fk::Json speed(const Arguments& a) {
  std::optional<KernelTimes> times;
  if (a.profile) times.emplace();
  const fk::Catalog catalog(fk::paths::registry_dirs());
  fk::Plugins plugins(catalog);
  for (const auto& name : a.providers)
    if (std::filesystem::exists(a.plugins + "/" + name + ".so"))
      plugins.load(a.plugins + "/" + name + ".so", fk::Trust::baseline);
  const fk::Config config = config_of(a);
  fk::Session::Options options = options_of(a);
  if (auto too_large = fit(catalog, config, options, a.context + a.output)) return *too_large;
  Ready r = open(plugins, config, "cuda:0", options);
  fk::Json rows = fk::Json::array(), profiles = fk::Json::array();
  for (const int batch : a.batches) {
    drive(r, std::min<int>(batch, 32), a.context, 4);  // first touches, captures
    rows.push_back(drive(r, batch, a.context, a.output));
    if (times) profiles.push_back(profile(*times, r, batch, a.context, 17));
  }
  const char* const commit = std::getenv("FK_COMMIT");
  fk::Json document{{"schema", "fk-host.fk_gpu_bench/2"},
                    {"command", a.command},
                    {"device", r.device->name()},
                    {"driver", fk::device_identity("cuda:0").driver},
                    {"commit", commit ? commit : ""},
                    {"build", fk::own_build_id()},
                    {"date", fk::now_text()},
                    {"config", a.config},
                    {"layers", config.integer("num_hidden_layers")},
                    {"context", a.context},
                    {"pages", r.session->pages()},
                    {"weights_bytes", r.session->bytes().weights},
                    {"rows", rows}};
  if (times) document["profiles"] = profiles;
  return document;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app("decode and prefill of a model on the first GPU");
  app.add_option("--config", a.config, "a name in registry/configs");
  app.add_option("--layers", a.layers, "the first ones only");
  app.add_option("--batch", a.batches);
  app.add_option("--context", a.context);
  app.add_option("--output", a.output);
  app.add_option("--max-batch", a.max_batch, "requests that run at the same time");
  app.add_option("--provider", a.providers, "in the order of preference");
  app.add_flag("--no-graph", a.eager);
  app.add_flag("--profile", a.profile, "the time of every kernel, by CUPTI");
  app.add_option("PLUGIN_DIR", a.plugins)->required();
  CLI11_PARSE(app, argc, argv);
  for (int i = 1; i < argc; ++i) a.command += std::string(" ") + argv[i];
  if (a.batches.empty()) a.batches = {1, 32};
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
