// SPDX-License-Identifier: Apache-2.0
// fk-host serve-model: a model with candidates in place, for clients of the OpenAI API.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/output.hpp"
#include "core/cli/parallel.hpp"
#include "core/cli/verb.hpp"
#include "core/device/device.hpp"
#include "core/device/rank_device.hpp"
#include "core/endpoint/model_endpoint.hpp"
#include "core/exec/ranking.hpp"
#include "core/judge/device_lock.hpp"
#include "core/report/document.hpp"
#include "core/report/progress.hpp"
#include "core/scenario/checkpoint_fit.hpp"
#include "core/scenario/run.hpp"
#include "core/scenario/run_memory_budget.hpp"
#include "core/service/http.hpp"
#include "core/text/chat_template.hpp"
#include "core/text/tokenizer.hpp"
#include "core/worker/weight_block.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

struct ServeModelArguments {
  std::string scenario, profile, weights, device, address = "127.0.0.1:8000", name, pooling,
                                                  tokenizer;
  std::string tokens, certificate, key, record;
  double record_gib = 1, patience_s = 300;
  std::vector<std::string> candidates, pins;
  Parallel parallel;
  int64_t max_batch = 0, max_context = 0, pages = -1, seed = 0, open_most = 1024, body_mib = 8;
  int64_t drain_s = 30;
  bool sandbox = true, has_seed = false, mirror = false, shares_prefix = true;
  JsonOutput json;
};
FK_DOCUMENT(mirror, MirrorReport);

std::string default_device() {
  for (const auto& device : device_names())
    if (starts_with(device, "cuda")) return device;
  return "cpu";
}

// A scenario of a folder with config.json and perhaps weights.
Scenario scenario_of_folder(const fs::path& folder, const std::string& device) {
  Scenario s(Config::load(folder / "config.json"));
  const fs::path path = fs::absolute(folder).lexically_normal();
  s.name = (path.has_filename() ? path : path.parent_path()).filename().string();
  s.profile = "full";
  s.arch = arch_of(s.config);
  s.info = find_model_info(s.arch);
  s.seed = 1;
  s.limits.dtype = s.limits.cache_dtype = device == "cpu" ? DType::f32 : DType::bf16;
  s.limits.max_batch = device == "cpu" ? 8 : 256;
  s.limits.page_size = 16;
  s.engine = s.make()->engine();
  constexpr int64_t kContext = 32768, kContextOnCpu = 4096, kChunk = 8192, kChunkOnCpu = 512;
  const int64_t positions = s.engine->form().positions;
  s.limits.max_context = device == "cpu" ? kContextOnCpu : kContext;
  if (positions > 0) s.limits.max_context = std::min(s.limits.max_context, positions);
  s.limits.chunk_tokens = device == "cpu" ? kChunkOnCpu : kChunk;
  if (fs::exists(folder / "model.safetensors.index.json"))
    s.weights = folder;
  else if (fs::exists(folder / "model.safetensors"))
    s.weights = folder / "model.safetensors";
  return s;
}

Scenario load(const ServeModelArguments& a, const Catalog& catalog, const PluginSet& plugin_set) {
  const bool folder = fs::is_directory(a.scenario);
  if (folder && !a.profile.empty()) fail("--profile", "is for scenarios", "leave it out");
  const std::string usual = a.device == "cpu" ? "tiny" : "full";
  Scenario s =
      folder ? scenario_of_folder(a.scenario, a.device)
             : load_scenario(find_scenario(a.scenario), a.profile.empty() ? usual : a.profile);
  if (a.has_seed) s.seed = static_cast<uint64_t>(a.seed);
  if (!a.weights.empty()) s.weights = a.weights;
  fit_weights(s, catalog);
  set_parallel(s.limits, a.parallel);
  if (a.max_batch > 0) s.limits.max_batch = a.max_batch;
  if (a.max_context > 0) s.limits.max_context = a.max_context;
  if (const int64_t most = s.engine->form().positions; most > 0 && a.max_context > most)
    fail("--max-context", "the model has " + std::to_string(most) + " positions");
  if (a.pages >= 0) s.limits.pages = a.pages;
  for (const auto& text : a.pins) pin(s, text, catalog, plugin_set);
  const std::string engine = s.engine->name();
  if ((engine != "generate" && engine != "encode") || !s.engine->form().tensors.empty())
    fail(s.name, "this kind of model cannot be served",
         "models that write or read texts can; this one's engine is " + engine +
             (s.engine->form().tensors.empty() ? "" : ", and its requests have tensors"));
  return s;
}

int64_t ranks_of(const Scenario& s) { return s.limits.parallel.ranks(); }

// Fewer pages when the device has no memory for all. The weights are on it already.
void fit_pages(Scenario& s, const ServeModelArguments& a, const Catalog& catalog) {
  const auto devices = devices_of_ranks(a.device, ranks_here(ranks_of(s)));
  const auto room = room_of(devices.front());
  if (a.pages > 0 || !room) return;
  const auto model = s.make();
  const RunMemoryBudget::Pages found =
      RunMemoryBudget(*model, catalog, s.limits, s.engine->form().context(s.limits),
                      std::ranges::count(devices, devices.front()))
          .pages(*room, a.mirror ? 2 : 1);
  if (found.too_large) fail(s.name, found.too_large->what);
  if (!found.why.empty()) fail(s.name, found.why);
  if (!found.note.empty()) log_warn(s.name + ": " + found.note);
  s.limits.pages = found.pages;
}

SessionSpec spec_of(const Scenario& s, const ServeModelArguments& a, const PluginSet& plugin_set) {
  SessionSpec spec{s.arch, s.config, s.limits, {}, a.device};
  if (a.device != "cpu") spec.decode_sizes = kDecodeSizes;
  spec.policy.pins = s.providers;
  spec.policy.baselines = plugin_set.ranked();
  spec.policy.ranking = ranking_of(open_device(a.device)->name());
  return spec;
}

// A session of the baselines, with the wanted candidates if `changed`.
LiveModel::Setup live_setup(const Scenario& s, const ServeModelArguments& a,
                            const PluginSet& plugin_set, const std::vector<WeightBlock>& weights,
                            bool changed) {
  const std::string name = !a.mirror ? "model" : changed ? "candidate" : "baseline";
  LiveModel::Setup setup{{.name = name,
                          .files = plugin_set.baseline_files(),
                          .spec = spec_of(s, a, plugin_set),
                          .weights = weights.data(),
                          .runner = {},
                          .smoke_check = changed},
                         s.engine->form().vocabulary,
                         s.engine->name() == "generate",
                         [name](const std::string& text) { log_warn(name + ": " + text); }};
  setup.side.runner.name = name;
  setup.side.runner.device = a.device;
  setup.side.runner.sandbox = a.sandbox;
  setup.side.runner.patience_s = a.patience_s;
  if (!changed) return setup;
  for (const auto& word : a.candidates) {
    const FoundPlugin found = plugin_set.plugin(word);
    if (!found.error.empty()) fail(word, found.error);
    if (const std::string stale = stale_build(found.path); !stale.empty()) log_warn(stale);
    setup.side.files.push_back({found.path, Trust::candidate});
    setup.side.spec.policy.candidates.push_back(plugin_name(found));
  }
  return setup;
}

// The tokenizer and the chat template: of the given folder, else of the checkpoint's.
void add_text(ModelEndpoint::Options& out, const Scenario& s, const ServeModelArguments& a) {
  fs::path folder = a.tokenizer;
  if (folder.empty() && fs::is_directory(a.scenario)) folder = a.scenario;
  if (folder.empty()) folder = fs::is_directory(s.weights) ? s.weights : s.weights.parent_path();
  if (folder.empty()) return;
  const fs::path file = fs::is_directory(folder) ? folder / "tokenizer.json" : folder;
  if (!fs::exists(file)) {
    if (!a.tokenizer.empty()) fail("--tokenizer", "there is no `" + file.string() + "`");
    log_warn("there is no " + file.string() + ": requests have tokens in place of texts");
    return;
  }
  out.tokenizer = text::Tokenizer::load(file);
  out.chat = text::ChatTemplate::load(file.parent_path());
}

ModelEndpoint::Options endpoint_options(const Scenario& s, const ServeModelArguments& a) {
  ModelEndpoint::Options out;
  out.limits.model = a.name.empty() ? s.name : a.name;
  out.limits.vocabulary = s.engine->form().vocabulary;
  out.limits.context = s.engine->form().context(s.limits);
  out.limits.writes = s.engine->form().continues;
  if (a.pooling == "cls")
    out.limits.pooling = Pooling::first;
  else if (a.pooling == "last")
    out.limits.pooling = Pooling::last;
  else if (!a.pooling.empty() && a.pooling != "mean")
    fail("--pooling", "there is no `" + excerpt(a.pooling) + "`",
         did_you_mean(a.pooling, {"mean", "cls", "last"}));
  add_text(out, s, a);
  out.limits.shares_prefix = a.shares_prefix;
  out.open_most = a.open_most;
  out.body_most = static_cast<size_t>(a.body_mib) << 20;
  out.device = a.device;
  out.drain_s = static_cast<double>(a.drain_s);
  const Config config = with_defaults(s.arch, s.config);
  if (config.is_list("eos_token_id"))
    out.eos = config.integers("eos_token_id");
  else if (config.has("eos_token_id"))
    out.eos = {config.integer("eos_token_id")};
  return out;
}

// As many open descriptors as the system allows, and the connections that fit.
int connections_most() {
  constexpr rlim_t kOthers = 256, kMost = 16384;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 512;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::clamp<rlim_t>(limit.rlim_cur, kOthers + 1, kMost + kOthers) -
                          kOthers);
}

// Prints the ops of each candidate.
void print_ops(const Side& side, const SessionSpec& spec) {
  for (const auto& name : spec.policy.candidates) {
    std::vector<std::string> ops;
    for (const auto& row : side.ops())
      if (row.provider == name && !contains(ops, row.op)) ops.push_back(row.op);
    std::printf("candidate %s runs %s\n", name.c_str(),
                ops.empty() ? "no op of this model" : join(ops, ", ").c_str());
  }
}

// Opens a model. False: the exit code says why, and it was printed.
bool opens(LiveModel& model, const Scenario& s, const std::vector<std::string>& candidates,
           int& code) {
  if (model.open()) {
    if (const std::string wrong = model.side().wrong_in_check(); !wrong.empty())
      log_warn("the candidate is wrong in the check of its ops: " + wrong);
    return true;
  }
  std::fprintf(stderr, "fk-host: %s: %s\n", s.name.c_str(), model.why().c_str());
  code = candidates.empty() || model.side().is_hosts_fault() ? kExitEnvironment : kExitFailed;
  return false;
}

void check_arguments(ServeModelArguments& a) {
  if (a.device.empty()) a.device = default_device();
  check_device_name(a.device);
  check_parallel(a.parallel);
  if (a.mirror && a.candidates.empty())
    fail("--mirror", "runs a candidate beside the baseline", "--candidate names it");
  if (a.json.given() && !a.mirror) fail("--json", "is for the report of --mirror");
  a.json.open();
  if (!(a.record_gib > 0 && a.record_gib <= 1 << 20)) fail("--record-gib", "no room");
  if (!(a.patience_s >= 1 && a.patience_s <= 86400)) fail("--patience", "is 1 to 86400 seconds");
}

std::string ratio_line(const char* what, const std::optional<Ratio>& ratio) {
  if (!ratio) return {};
  return fmt::format("  {:<12} {:.3f} ({:.3f}-{:.3f}) times the baseline's speed, {} blocks\n",
                     what, ratio->value, ratio->low, ratio->high, ratio->blocks);
}

void print_mirror(const MirrorReport& r) {
  std::string text = fmt::format(
      "{} requests beside the baseline: {} equal, {} different, {} failed, {} left out, {} open\n",
      r.requests, r.equal, r.different, r.failed, r.left_out, r.open);
  if (r.tokens > 0)
    text += fmt::format("  {} of {} tokens come before a difference\n", r.equal_tokens, r.tokens);
  if (r.vectors_apart)
    text += fmt::format("  vectors are at most {:.2g} apart\n", *r.vectors_apart);
  text += ratio_line("first token", r.first_token) + ratio_line("next token", r.next_token) +
          ratio_line("whole", r.whole);
  for (const auto& d : r.differences)
    text += fmt::format("  request {}, token {}: {} in place of {}{}{}\n", d.request, d.index,
                        d.candidate, d.baseline, d.sampled ? ", sampled" : "",
                        d.apart ? fmt::format(", logits {:.3g} apart", *d.apart) : "");
  for (const auto& why : r.failures) text += "  failed: " + why + "\n";
  print_report(text + "  Both models ran at the same time on one device, so this is no verdict.\n");
}

// The end of a mirror: the candidate's open requests have as long as answers have.
void finish_mirror(TrafficMirror& mirror, ModelEndpoint& endpoint, const ServeModelArguments& a) {
  if (!mirror.settle(static_cast<double>(a.drain_s)))
    log_warn("the candidate's last requests did not end in time");
  const MirrorReport report = endpoint.mirror_report();
  if (a.json.given()) a.json.write(document(report));
  if (a.json.with_report()) print_mirror(report);
}

int serve_model(ServeModelArguments& a) {
  check_arguments(a);
  if (const auto code = join_launch(a.parallel)) return *code;
  HttpOptions http;
  http.address = a.address;
  if (!a.tokens.empty()) http.tokens = load_tokens(a.tokens);
  http.certificate = a.certificate;
  http.key = a.key;
  http.connections_most = connections_most();
  const Catalog catalog(paths::registry_dirs());
  const PluginSet plugin_set = PluginSet::find(catalog);
  Scenario scenario = load(a, catalog, plugin_set);
  for (const auto& note : scenario.weights_notes) log_info(note);
  ModelEndpoint::Options options = endpoint_options(scenario, a);
  RunOptions lock;
  lock.device = a.device;
  const DeviceLock turn = devices_of_run(scenario, lock);
  ProgressLine progress;
  progress.say(scenario.name + ": making the weights");
  const auto weights = make_weight_blocks(
      *scenario.make(), catalog, spec_of(scenario, a, plugin_set), scenario.weights.string(),
      scenario.seed, [&](int64_t done, int64_t total) {
        progress.say(scenario.name + ": making the weights, " + human_bytes(done) + " of " +
                     human_bytes(total));
      });
  fit_pages(scenario, a, catalog);
  progress.say(scenario.name + ": the model is opened");
  std::optional<TrafficRecorder> recorder;
  if (!a.record.empty())
    recorder.emplace(scenario, a.record, static_cast<int64_t>(a.record_gib * (int64_t{1} << 30)),
                     [](const std::string& text) { log_warn("--record: " + text); });
  LiveModel::Setup changed = live_setup(scenario, a, plugin_set, weights, !a.candidates.empty());
  const SessionSpec spec = changed.side.spec;
  TrafficMirror mirror(static_cast<size_t>(a.open_most));
  std::optional<LiveModel> baseline;
  if (a.mirror) baseline.emplace(live_setup(scenario, a, plugin_set, weights, false));
  LiveModel candidate(std::move(changed));
  int code = kExitOk;
  const bool opened = (!baseline || opens(*baseline, scenario, {}, code)) &&
                      opens(candidate, scenario, spec.policy.candidates, code);
  progress.clear();
  if (!opened) return code;
  if (baseline) mirror.attach(*baseline, candidate);
  options.candidates = spec.policy.candidates;
  options.ops = candidate.side().ops();
  options.mirror = baseline ? &mirror : nullptr;
  options.recorder = recorder ? &*recorder : nullptr;
  ModelEndpoint endpoint(options, baseline ? *baseline : candidate);
  HttpServer server(http, endpoint);
  print_ops(candidate.side(), spec);
  std::printf("serving %s on %s at %s\n", options.limits.model.c_str(), a.device.c_str(),
              server.url().c_str());
  std::fflush(stdout);
  server.run();
  if (baseline) finish_mirror(mirror, endpoint, a);
  return kExitOk;
}

std::function<int()> add_serve_model(const Options& app) {
  auto a = std::make_shared<ServeModelArguments>();
  app.add_option("SCENARIO", a->scenario,
                 "a scenario, or a folder with config.json and perhaps a checkpoint")
      .required();
  app.add_option("--profile", a->profile, "tiny or full; default: full with a GPU, else tiny");
  app.add_option("--candidate", a->candidates,
                 "a candidate that runs its ops in the model (may be repeated); default: none")
      .one_at_a_time();
  app.add_flag("--mirror", a->mirror,
               "the baseline answers, the candidates run the same requests beside it, and a report "
               "compares both");
  app.add_option("--provider", a->pins, "OP=PLUGIN: provider that must run an op (may be repeated)")
      .one_at_a_time();
  app.add_option("--device", a->device, "cpu, cuda:0; default: a GPU where there is one");
  add_parallel_options(app, a->parallel);
  app.add_option("--weights", a->weights, "a checkpoint; default: random weights from the seed");
  const auto seed = app.add_option("--seed", a->seed, "of random weights");
  app.add_option("--max-batch", a->max_batch, "requests at the same time").range(1, 65536);
  app.add_option("--max-context", a->max_context, "tokens of a prompt with its answer")
      .range(1, int64_t{1} << 31);
  app.add_option("--pages", a->pages,
                 "of the cache on each rank; default: as many as there is "
                 "room for")
      .range(0, int64_t{1} << 31);
  app.add_flag("!--no-prefix-cache", a->shares_prefix,
               "compute each prompt whole, also where an earlier one began equally");
  app.add_flag("!--no-sandbox", a->sandbox,
               "run candidates without a sandbox, with all rights of this user");
  app.add_option("--http", a->address, "ADDRESS:PORT; default: 127.0.0.1:8000; port 0: a free one");
  app.add_option("--name", a->name, "of the model for clients; default: the scenario's");
  app.add_option("--tokenizer", a->tokenizer,
                 "a tokenizer.json, or the folder with it and the chat template; default: the "
                 "checkpoint's");
  app.add_option("--tokens", a->tokens, "a file of lines NAME TOKEN, one for each client");
  app.add_option("--certificate", a->certificate, "the chain of certificates for TLS, PEM");
  app.add_option("--key", a->key, "the certificate's private key, PEM");
  app.add_option("--open", a->open_most, "answers that clients wait for; a further one gets 429")
      .range(1, 1'000'000);
  app.add_option("--body-mib", a->body_mib, "MiB that one request may have").range(1, 1024);
  app.add_option("--patience", a->patience_s,
                 "seconds which the model may take for one step; then it is started again (300)");
  app.add_option("--drain", a->drain_s, "seconds for open answers after SIGTERM").range(0, 86400);
  app.add_option("--pooling", a->pooling,
                 "the embedding of a text: mean, cls or last of its "
                 "tokens");
  app.add_option("--record", a->record,
                 "a new folder for requests and answers, a scenario which `fk-host run` replays");
  app.add_option("--record-gib", a->record_gib, "room for them, in GiB (1)");
  a->json.declare(
      app, "write the report of --mirror as JSON: to a file beside the text, or in its place");
  app.footer("The server runs until it is interrupted. docs/serving.md has its paths and keys.");
  return [a, seed] {
    a->has_seed = seed.given();
    return serve_model(*a);
  };
}

const VerbRegistration fk_verb_serve_model(
    "serve-model", "serve a model with candidates in place to clients of the OpenAI API",
    add_serve_model);

}  // namespace
}  // namespace fk
