// SPDX-License-Identifier: Apache-2.0
// fk-host bench [WHAT...]: judges candidates (bench_candidates.hpp), or races the providers of ops
// (bench_op.hpp).
#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cases/routing.hpp"
#include "core/check/plugin_set.hpp"
#include "core/cli/bench/bench_arguments.hpp"
#include "core/cli/bench/bench_candidates.hpp"
#include "core/cli/bench/bench_op.hpp"
#include "core/cli/bench/bench_remote.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/verb.hpp"
#include "core/device/rank_device.hpp"
#include "core/judge/plan/case_plan.hpp"
#include "core/plugin/discover.hpp"
#include "core/plugin/notes.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

constexpr int kJobsMax = 64;

bool names_plugin(const std::string& word, const PluginSet& plugin_set) {
  const auto has = [&](const std::vector<FoundPlugin>& list) {
    return std::any_of(list.begin(), list.end(), [&](const FoundPlugin& p) {
      return plugin_name(p) == word || p.path.stem() == word;
    });
  };
  return has(plugin_set.candidates) || has(plugin_set.baselines);
}

BenchArguments complete(BenchArguments a) {
  check_device_name(a.device);
  if (!a.captured.empty()) {
    a.captured = std::filesystem::absolute(a.captured).lexically_normal();
    a.options.size = "captured";
  } else {
    need_size(a.options.size);
  }
  check_seconds(a.options.seconds);
  if (!a.options.graphs && a.device == "cpu")
    fail("--no-graph", "there are no CUDA graphs on the device cpu");
  a.options.skew = skew_of_routing(a.routing);
  return a;
}

BenchRequest request_of(const BenchArguments& a) {
  BenchRequest request;
  Policy& policy = request.question.policy;
  policy.size = a.options.size;
  policy.ops = a.ops;
  policy.cases = a.options.cases;
  policy.families = a.families;
  policy.captured = a.captured;
  policy.routing = a.routing;
  policy.variants = a.variants;
  policy.dtypes = a.dtypes;
  policy.seconds = a.options.seconds;
  policy.patience_s = a.patience_s;
  policy.budget_s = a.budget_s;
  policy.sandbox = a.sandbox;
  policy.thorough = a.thorough;
  request.question.device = a.device;
  request.answer.store = !a.no_store;
  request.answer.fresh = a.fresh;
  request.answer.host_version = FK_VERSION;
  request.secret = a.secret;
  request.receipt = a.receipt;
  request.trace = a.trace;
  request.verbose = a.verbose;
  request.archive = a.archive;
  request.archived = !a.archive.empty() || (!a.no_store && a.secret.empty());
  request.profile = a.profile;
  request.json = &a.json;
  return request;
}

// The file of a plugin with its file's name. Nothing if another file or an op has that name.
std::optional<std::filesystem::path> plugin_of_name(const std::string& name) {
  if (name.empty()) return std::nullopt;
  for (const auto& dir : paths::registry_dirs()) {
    std::error_code none;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir / "ops", none))
      if (entry.path().filename() == name + ".yaml") return std::nullopt;
  }
  auto file = only_plugin_file(name);
  try {
    if (file && read_notes(*file).name != name) return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // the full search reports the reason
  }
  return file;
}

bool is_path_word(const std::string& word) {
  return word.find('/') != std::string::npos || ends_with(word, ".so");
}

// A candidate by its path or its file's name, or an empty one. Reads no contracts and no other
// plugins, so that a stored answer comes at once.
BenchCandidate candidate_at_once(const BenchArguments& a, const std::string& word) {
  std::error_code none;
  if (a.build || (is_path_word(word) && fs::is_directory(word, none)))
    return {word, candidate_dir(word), ""};
  if (is_path_word(word)) return {word, "", fs::exists(word, none) ? word : ""};
  return {word, "", plugin_of_name(word).value_or("")};
}

// A folder of sources without a plugin: its build failed, or was not asked for.
bool is_unbuilt(const std::string& word) {
  std::error_code none;
  const fs::path folder = paths::candidates_dir() / word;
  return fs::is_directory(folder, none) && has_sources(folder);
}

[[noreturn]] void no_such_thing(const std::string& word, const Catalog& catalog,
                                const PluginSet& plugin_set) {
  need_built(word);
  std::vector<std::string> known;
  for (const auto* list : {&plugin_set.candidates, &plugin_set.baselines})
    for (const auto& plugin : *list) known.push_back(plugin_name(plugin));
  for (const auto& op : catalog.ops()) known.push_back(op);
  fail("bench", "there is no op and no plugin `" + excerpt(word) + "`", did_you_mean(word, known));
}

// The meaning of the words: candidates, or ops.
struct BenchWords {
  std::vector<BenchCandidate> candidates;
  std::vector<std::string> ops;
};

BenchWords named_by(const BenchArguments& a) {
  BenchWords out;
  std::optional<Catalog> catalog;
  std::optional<PluginSet> plugin_set;
  for (const auto& word : a.what) {
    BenchCandidate found = candidate_at_once(a, word);
    if (found.folder.empty() && found.plugin.empty()) {
      if (!catalog) catalog.emplace(paths::registry_dirs());
      if (const Contract* const op = catalog->find(word)) {
        out.ops.push_back(op->op);
        continue;
      }
      if (!plugin_set) plugin_set = PluginSet::find(*catalog);
      const bool known = is_path_word(word) || names_plugin(word, *plugin_set);
      if (!known && is_unbuilt(word))
        found.folder = candidate_dir(word);
      else if (!known)
        no_such_thing(word, *catalog, *plugin_set);
      else
        found.plugin = plugin_set->plugin(word).path;
    }
    out.candidates.push_back(std::move(found));
  }
  if (!out.ops.empty() && !out.candidates.empty())
    fail("bench",
         "`" + out.ops[0] + "` is an op, and `" + out.candidates[0].name + "` is a candidate",
         "race ops and judge candidates with a command each");
  return out;
}

// `bench --json mine` judges the candidate `mine` and writes no file of this name.
bool names_candidate(const std::string& word) {
  std::error_code none;
  if (word.empty() || word == "-") return false;
  if (fs::is_directory(is_path_word(word) ? fs::path(word) : paths::candidates_dir() / word, none))
    return true;
  return is_path_word(word) ? ends_with(word, ".so") && fs::exists(word, none)
                            : plugin_of_name(word).has_value();
}

void need_ops(const BenchArguments& a) {
  for (const bool given :
       {!a.ops.empty(), !a.families.empty(), !a.variants.empty(), !a.dtypes.empty(),
        !a.secret.empty(), a.fresh, a.no_store, !a.receipt.empty(), a.profile, a.build, a.jobs > 1,
        a.thorough || a.options.size == kRangeSize, !a.archive.empty()})
    if (given)
      fail("bench",
           "--op, --family, --variant, --dtype, --secret, --fresh, --no-store, --receipt, "
           "--profile, --build, --jobs, --thorough, --size range and --archive are for a candidate",
           "bench CANDIDATE");
}

int bench(BenchArguments a) {
  if (names_candidate(a.json.word())) a.what.push_back(a.json.take_word());
  a.json.open();
  if (!a.remote.empty()) return bench_remote(a);
  if (!a.trace.empty()) need_writable(a.trace);
  a.json.attach("", a.trace);
  a = complete(std::move(a));
  if (a.all && !a.what.empty())
    fail("--all", "it means every candidate, and `" + excerpt(a.what[0]) + "` is named as well",
         "leave one of them out");
  BenchWords named = a.all ? BenchWords{all_candidates(), {}} : named_by(a);
  if (!named.candidates.empty()) {
    if (!a.options.graphs)
      fail("--no-graph", "a verdict's `timings` have both, with and without graphs", "bench OP");
    if (!a.receipt.empty()) need_writable(a.receipt);
    const BenchRequest request = request_of(a);
    if (!a.all && named.candidates.size() == 1) return bench_one(named.candidates[0], request);
    if (!a.receipt.empty())
      fail("--receipt", "it is one file, and there are several candidates",
           "fk-host receipts ID --output FILE");
    return bench_many(named.candidates, request, a.jobs);
  }
  need_ops(a);
  const Catalog catalog(paths::registry_dirs());
  return bench_ops(a, named.ops, catalog, PluginSet::find(catalog));
}

std::function<int()> add_bench(const Options& app) {
  auto a = std::make_shared<BenchArguments>();
  app.add_option("WHAT", a->what,
                 "ops, to race their providers (default: all ops of level 1); or candidates, to "
                 "judge them: a .so, a name, or a folder, which is compiled first");
  app.add_flag("--all", a->all, "judge every candidate of the folder of candidates");
  app.add_option("--jobs", a->jobs,
                 "with several candidates, compile up to so many (1) at the same time. One at a "
                 "time is judged; a GPU's is judged while others compile")
      .range(1, kJobsMax);
  app.add_option("--device", a->device, "cpu (the default) or cuda:0");
  app.add_option("--remote", a->remote,
                 "ask the server `fk-host serve --http` at this address, such as "
                 "http://127.0.0.1:8080, with the token of the variable FK_TOKEN");
  app.add_option("--provider", a->options.providers, "only these; the others race the first");
  app.add_option("--op", a->ops, "of a candidate, only these");
  app.add_option("--family", a->families, "of inputs for a candidate, only these and ordinary");
  app.add_option("--variant", a->variants,
                 "variants of a candidate's cases to judge too, by `check`'s names, or all");
  app.add_option("--dtype", a->dtypes, "the same for dtypes: f32, bf16, f16, or all");
  app.add_option("--secret", a->secret, "secret of an earlier verdict, to reuse its seeds");
  app.add_flag("--fresh", a->fresh, "judge a candidate again, even if a verdict is stored");
  app.add_flag("--no-store", a->no_store, "do not read earlier verdicts and do not store this one");
  app.add_option(
      "--archive", a->archive,
      "put the verdict and the sources into this archive; default: archive.sqlite beside "
      "the store of verdicts");
  app.add_option("--receipt", a->receipt, "write the signed receipt to a file, too");
  app.add_flag("--profile", a->profile,
               "also run a candidate under Nsight Compute, without the sandbox");
  app.add_flag("--thorough", a->thorough,
               "of a candidate, all cases, and all timed; else those for which there is time");
  app.add_flag("--verbose", a->verbose,
               "of a candidate, explain every failed case in full; else the one that decides");
  app.add_flag("--build", a->build,
               "compile the candidate's folder first (implied by a path, and without a plugin)");
  const char* const patience = "seconds without a sign of life before a candidate is stopped";
  app.add_option("--patience", a->patience_s, patience).positive();
  app.add_option("--budget", a->budget_s, "seconds for a whole verdict; 0: no end");
  app.add_option("--case", a->options.cases, "only these");
  app.add_option("--recorded,--captured", a->captured, "cases of this folder (fk-host record)");
  app.add_option("--routing", a->routing,
                 "load of experts for ops with expert ids: uniform, skewed (as published) or "
                 "skewed:RATIO. Skewed rows are shown beside uniform ones");
  app.add_option("--size", a->options.size, "full (the default), ci, smoke or range cases");
  app.add_flag("!--no-graph", a->options.graphs,
               "providers are called without CUDA graphs; a candidate's row has both");
  app.add_flag("!--no-sandbox", a->sandbox,
               "run candidates without a sandbox, with all rights of this user");
  app.add_option("--seconds", a->options.seconds, "approximate time per case and provider");
  a->json.declare(app);
  a->json.declare_views(app);
  a->json.declare_mlflow(app);
  app.add_option("--trace", a->trace,
                 "write Chrome trace events to a file: the judge's steps, and the median call of "
                 "each case");
  return [a] { return bench(std::move(*a)); };
}

FK_VERB(bench, "judge a candidate, or compare all providers of an op: correctness and time",
        add_bench);

}  // namespace
}  // namespace fk
