// SPDX-License-Identifier: Apache-2.0
// fk-host verify DIR...: compares models with another implementation's answers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/parallel.hpp"
#include "core/cli/verb.hpp"
#include "core/cli/wait_for_device.hpp"
#include "core/device/device.hpp"
#include "core/device/rank_device.hpp"
#include "core/report/document.hpp"
#include "core/report/run_text.hpp"
#include "core/report/table.hpp"
#include "core/scenario/verify.hpp"
#include "core/worker/remote/machines.hpp"

namespace fk {

template <class Visitor>
void fields(Visitor& v, VerifyRow& r) {
  v("what", r.what, "the compared values");
  v("judged", r.judged, "whether they are judged");
  v("ok", r.ok, "whether they are right");
  v("rms_of_spread", r.rms, "root mean square of the errors over the spread");
  v("worst_of_spread", r.worst, "largest error over the spread");
  v("limit", r.limit, "the largest that is right");
  v("text", r.text, "the pattern of an error, or the tokens");
}
template <class Visitor>
void fields(Visitor& v, VerifyOp& o) {
  v("phase", o.phase, "the phase");
  v("op", o.op, "the op");
  v("provider", o.provider, "the provider");
}
template <class Visitor>
void fields(Visitor& v, VerifyReport& r) {
  std::vector<VerifyOp> ops(r.ops.begin(), r.ops.end());
  bool passed = r.passed();
  v("name", r.name, "the case");
  v("ops", ops, "who runs which op");
  v("folder", r.folder, "its folder");
  v("arch", r.arch, "the model");
  v("device", r.device, "the device");
  v("passed", passed, "whether the case passed");
  v("error", r.error, "why it could not be done; empty: it was");
  v("notes", r.notes, "about the checkpoint");
  v("providers", r.providers, "all providers that ran");
  v("rows", r.rows, "one row for each comparison");
  v("seconds", r.seconds, "time of the case");
  v("broken_plugins", r.unusable, "baselines that cannot be used");
}

namespace {

struct VerifyArguments {
  std::vector<std::string> folders;
  std::string dtype = "f32";
  JsonOutput json;
  VerifyOptions options;
};

std::string share(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

struct VerifyDocument {
  static constexpr const char* kSchema = "fk-host.verify/1";
  static constexpr const char* kTitle = "Models beside the answers of another implementation";
  std::string dtype;
  bool passed = false;
  std::vector<VerifyReport> cases;
};
template <class Visitor>
void fields(Visitor& v, VerifyDocument& d) {
  v("dtype", d.dtype, "dtype of activations and weights");
  v("passed", d.passed, "whether all cases passed");
  v("cases", d.cases, "one entry for each folder");
}
FK_DOCUMENT(verify, VerifyDocument);

void print(const VerifyReport& r, const VerifyArguments& a) {
  const bool colour = colour_wanted(stdout);
  std::string head = r.name;
  if (!r.arch.empty()) head += ": " + r.arch + " in " + a.dtype;
  if (a.options.parallel.ranks() > 1) head += parallel_text(a.options.parallel);
  if (!r.providers.empty()) head += " on " + r.device + " by " + join(r.providers, ", ");
  std::printf("%s\n", styled(head, Style::strong, colour).c_str());
  for (const auto& note : r.notes) std::printf("  weights: %s\n", note.c_str());
  Table table({{"compared"},
               {"rms", Align::right},
               {"worst", Align::right},
               {"limit", Align::right},
               {""},
               {""}});
  for (const auto& row : r.rows) {
    const bool values = row.limit > 0;
    const Cell verdict = !row.judged ? Cell("not judged", Style::weak)
                         : row.ok    ? Cell("ok", Style::good)
                                     : Cell("WRONG", Style::bad);
    table.row({row.what, values ? share(row.rms) : "", values ? share(row.worst) : "",
               values ? share(row.limit) : "", verdict, row.text});
  }
  for (const auto& [path, why] : r.unusable)
    std::printf("  %s\n", styled("not usable: " + excerpt(path, 300) + ": " + excerpt(why, 300),
                                 Style::bad, colour)
                              .c_str());
  if (!table.empty()) std::printf("%s", table.text(colour).c_str());
  if (!r.error.empty()) std::printf("  %s\n", styled(r.error, Style::bad, colour).c_str());
  std::printf("  %s in %s\n",
              r.passed() ? styled("PASS", Style::good, colour).c_str()
                         : styled("FAIL", Style::bad, colour).c_str(),
              human_duration(r.seconds).c_str());
  std::fflush(stdout);
}

// Error for an unknown name, which would judge nothing.
void check_provider(const std::string& name, const PluginSet& plugin_set) {
  if (name.empty()) return;
  std::vector<std::string> known;
  for (const auto& p : plugin_set.baselines) known.push_back(plugin_name(p));
  for (const auto& p : plugin_set.candidates) {
    known.push_back(plugin_name(p));
    if (plugin_name(p) == name && !p.error.empty()) fail(p.path.string(), p.error);
  }
  if (std::find(known.begin(), known.end(), name) == known.end())
    fail("--provider", "there is no plugin `" + name + "`", did_you_mean(name, known));
}

int verify(VerifyArguments& a) {
  VerifyOptions options = a.options;
  options.dtype = dtype_from_name(a.dtype, "--dtype");
  if (options.dtype != DType::f32 && options.dtype != DType::bf16 && options.dtype != DType::f16)
    fail("--dtype", "models run in f32, bf16 or f16");
  check_parallel(options.parallel);
  if (const auto code = join_launch(options.parallel)) return *code;
  a.json.open();
  open_device(options.device);
  const Catalog catalog(paths::registry_dirs());
  const PluginSet plugin_set = PluginSet::find(catalog);
  check_provider(options.provider, plugin_set);
  const auto turn = wait_for_device(
      devices_of_ranks(options.device, static_cast<int>(ranks_here(options.parallel.ranks()))),
      DeviceLock::Use::computes);
  std::vector<VerifyReport> all;
  int passed = 0, bad = 0;
  for (const auto& folder : a.folders) {
    const VerifyReport report = verify_case(folder, options, plugin_set, catalog);
    passed += report.passed();
    bad += report.bad_input;
    if (a.json.with_report()) print(report, a);
    if (a.json.given()) all.push_back(report);
  }
  const int total = static_cast<int>(a.folders.size());
  if (a.json.given())
    a.json.write(document(VerifyDocument{a.dtype, passed == total, std::move(all)}));
  if (a.json.with_report() && total > 1) std::printf("%d of %d passed\n", passed, total);
  return bad ? kExitUsage : passed == total ? kExitOk : kExitFailed;
}

std::function<int()> add_verify(const Options& app) {
  auto a = std::make_shared<VerifyArguments>();
  app.add_option("DIR", a->folders,
                 "folders with config.json, model.safetensors, golden.safetensors")
      .required();
  app.add_option("--device", a->options.device, "cpu, cuda:0");
  app.add_option("--dtype", a->dtype, "f32 (judged to 1e-4 of the spread), bf16, f16");
  app.add_option("--provider", a->options.provider,
                 "a baseline or candidate; default: the ranked baselines");
  app.add_flag("--whole", a->options.whole, "the reference provider takes whole layers");
  app.add_flag("--stress", a->options.stress,
               "also with batches mixed, prompts chunked and requests preempted");
  add_parallel_options(app, a->options.parallel);
  app.add_option("--decode", a->options.decode,
                 "also decode this many tokens at the end of every row one by one")
      .non_negative();
  app.add_option("--save", a->options.save, "a folder for the computed values, <case>.safetensors")
      .existing_folder();
  app.add_option("--patience", a->options.patience_s,
                 "seconds without a sign of life before a runner is stopped")
      .positive();
  a->json.declare(app);
  return [a] { return verify(*a); };
}

FK_VERB(verify, "compare models with the answers of another implementation", add_verify);

}  // namespace
}  // namespace fk
