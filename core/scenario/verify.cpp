// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/exec/ranking.hpp"
#include "core/scenario/checkpoint_fit.hpp"
#include "core/scenario/drive_round.hpp"
#include "core/scenario/few_values.hpp"
#include "core/scenario/golden_case.hpp"
#include "core/scenario/memory_budget.hpp"
#include "core/scenario/model_verdict.hpp"
#include "core/tensor/compare.hpp"
#include "core/worker/weight_block.hpp"

namespace fk {

namespace {

// Share of the other implementation's error in bfloat16, which bounds ours. Its roundings are
// independent of ours, so ours may be larger.
constexpr double kRoomOfOther = 1.5;

// Ends a case without a result.
struct CaseFailed {
  std::string why;
};

std::string tokens_text(const std::vector<int64_t>& tokens) {
  std::vector<std::string> words;
  for (const int64_t t : tokens) words.push_back(std::to_string(t));
  return join(words, " ");
}

// Concatenates rows in the wanted shape. Fails when widths or lengths do not fit.
Tensor stacked(const std::vector<const NamedTensor*>& parts, const Shape& want) {
  const int64_t width = want[1];
  Tensor out(DType::f32, want);
  auto target = out.as<float>();
  size_t at = 0;
  for (const auto* part : parts) {
    if (part->shape.empty() || part->shape.back() != width ||
        at + part->values.size() > target.size())
      throw CaseFailed{"a result has shape " + shape_text(part->shape)};
    std::copy(part->values.begin(), part->values.end(), target.begin() + static_cast<int64_t>(at));
    at += part->values.size();
  }
  if (at != target.size()) throw CaseFailed{"results are missing"};
  return out;
}

class Verifier {
 public:
  Verifier(const GoldenCase& golden, const VerifyOptions& options, const PluginSet& plugin_set,
           const Catalog& catalog, VerifyReport& report)
      : golden_(golden),
        options_(options),
        plugin_set_(plugin_set),
        catalog_(catalog),
        report_(report) {
    model_ = make_model(report.arch, golden.config);
    if (const std::string why = model_->refusal(options.parallel); !why.empty())
      fail(report.arch, why);
    engine_ = model_->engine();
    continues_ = engine_->form().continues;
    ranking_ = ranking_of(open_device(options.device)->name());
    limit_ = verify_limit(options.dtype, layer_count(with_defaults(report.arch, golden.config)));
    if (options.dtype == DType::bf16)
      limit_ = std::max(limit_, kRoomOfOther * golden.bf16_of_spread);
    check_tensors();
    for (const auto& row : golden.rows)
      for (const int64_t token : row)
        if (token < 0 || token >= engine_->form().vocabulary)
          fail("in.input_ids", "has a token outside the vocabulary of " +
                                   std::to_string(engine_->form().vocabulary));
    for (const auto& row : golden.greedy)
      new_tokens_ = std::max<int64_t>(new_tokens_, static_cast<int64_t>(row.size()));
    if (!continues_ && new_tokens_ > 0) fail("out.greedy", "this model generates no tokens");
    check_decode();
    const int64_t need = golden.row_longest() + std::max<int64_t>(new_tokens_, options.decode > 0);
    const int64_t positions = engine_->form().positions;
    if (positions > 0 && need > positions)
      fail(golden.config.where(), "the case needs " + std::to_string(need) +
                                      " positions, the model has " + std::to_string(positions));
  }

  void run() {
    plain();
    if (options_.stress) stress();
    if (!options_.save.empty()) save();
    for (const auto& name : golden_.not_compared)
      report_.rows.push_back({name, false, true, 0, 0, 0, "not compared: no such output"});
  }

 private:
  void check_decode() const {
    if (options_.decode == 0) return;
    if (!continues_ || golden_.outputs.count("logits") == 0)
      fail("--decode", golden_.name + " has no logits of a model that generates tokens");
    for (const auto& row : golden_.rows)
      if (static_cast<int64_t>(row.size()) <= options_.decode)
        fail("--decode", "a row of " + std::to_string(row.size()) +
                             " tokens leaves no prompt before the " +
                             std::to_string(options_.decode) + " that are decoded");
  }

  void check_tensors() const {
    std::vector<std::string> names;
    for (const auto& wanted : engine_->form().tensors) {
      names.push_back(wanted.name);
      for (const auto& have : golden_.tensors) check_tensor(wanted, have);
    }
    for (const auto& row : golden_.tensors)
      for (const auto& given : row)
        if (std::find(names.begin(), names.end(), given.name) == names.end())
          fail("in." + given.name, "is an input that the model does not have",
               did_you_mean(given.name, names));
    if (engine_->form().vocabulary > 0 && golden_.padded == 0) fail("in.input_ids", "is missing");
  }

  void check_tensor(const RequestTensor& wanted, const std::vector<NamedTensor>& have) const {
    const RequestForm& form = engine_->form();
    const auto given = [&](const RequestTensor& t) {
      return std::ranges::find(have, t.name, &NamedTensor::name) != have.end();
    };
    // A request may lack images or sounds, and all of their group.
    const auto of_group = [&](const RequestTensor& t) { return t.group == wanted.group; };
    if (std::ranges::any_of(form.tensors,
                            [&](const auto& t) { return of_group(t) && t.shapes(); }) &&
        std::ranges::none_of(form.tensors, [&](const auto& t) { return of_group(t) && given(t); }))
      return;
    const auto it = std::ranges::find(have, wanted.name, &NamedTensor::name);
    if (it == have.end()) fail("in." + wanted.name, "is missing");
    Shape shape = wanted.shape;
    if ((wanted.ragged || wanted.shapes()) && !it->shape.empty()) shape[0] = it->shape[0];
    if (it->shape != shape)
      fail("in." + wanted.name,
           "has rows of " + shape_text(it->shape) + " where " + shape_text(shape) + " are needed");
  }

  Limits plain_limits() const {
    Limits limits;
    limits.max_batch = std::max<int64_t>(2, static_cast<int64_t>(golden_.rows.size()));
    limits.max_context = golden_.row_longest() + std::max<int64_t>(new_tokens_, 1);
    limits.chunk_tokens = std::max<int64_t>(1, golden_.row_longest());
    limits.dtype = limits.cache_dtype = options_.dtype;
    limits.parallel = options_.parallel;
    return limits;
  }
  int ranks() const { return static_cast<int>(options_.parallel.ranks()); }

  Limits stress_limits() const {
    Limits limits = plain_limits();
    limits.page_size = 4;
    limits.max_batch = 4;
    return engine_->stressed(limits, golden_.row_longest());
  }

  SessionInfo open(RankGroup& runner, const Limits& limits,
                   std::vector<int64_t> decode_sizes = {}) {
    std::vector<PluginFile> files = plugin_set_.baseline_files();
    SessionSpec spec{report_.arch, golden_.config, limits, {}, options_.device};
    spec.decode_sizes = std::move(decode_sizes);
    spec.policy.whole = options_.whole;
    spec.policy.ranking = ranking_;
    if (const auto* candidate = plugin_set_.candidate(options_.provider)) {
      files.push_back({candidate->path, Trust::candidate});
      spec.policy.candidates = {options_.provider};
    }
    // Oracles run the ops that a named provider lacks. The report lists the providers of nodes.
    if (!options_.provider.empty() && spec.policy.candidates.empty())
      spec.policy.baselines = {options_.provider};
    for (const auto& name : plugin_set_.ranked())
      if (is_oracle(name) || options_.provider.empty() || !spec.policy.candidates.empty())
        spec.policy.baselines.push_back(name);
    const auto loaded = runner.load(files);
    if (!loaded) throw CaseFailed{runner.failure().sentence()};
    try {
      report_.unusable = unusable_of(files, loaded->errors);
    } catch (const Error& e) {
      throw CaseFailed{e.what()};
    }
    // An oracle must not replace a requested provider.
    for (const auto& [path, why] : report_.unusable)
      for (const auto& b : plugin_set_.baselines)
        if (b.path == path && plugin_name(b) == options_.provider)
          throw CaseFailed{path + ": " + why};
    if (weights_.empty() ||
        weights_[0].bytes != WeightLayout(*weight_table(*model_, catalog_, limits)).bytes)
      weights_ = make_weights(spec);
    const auto info = runner.open(spec, handles_of(weights_));
    if (!info) throw CaseFailed{runner.failure().sentence()};
    return *info;
  }

  // Makes the weights in host memory, for any device.
  std::vector<WeightBlock> make_weights(SessionSpec spec) const {
    spec.device = "cpu";
    return make_weight_blocks(*model_, catalog_, spec, golden_.weights.string(), 0, {});
  }

  Runner::Options runner_options() const {
    Runner::Options options;
    options.name = golden_.name;
    options.device = options_.device;
    options.patience_s = options_.patience_s;
    options.payload_bytes_max += result_bytes(*model_, catalog_, plain_limits());
    return options;
  }

  void drive(RankGroup& runner, const std::vector<Request>& requests, bool taps, Round& round) {
    RoundOptions options;
    options.vocab_size = engine_->form().vocabulary;
    options.taps = taps;
    options.time_limit_s = 10 * options_.patience_s;
    if (!drive_round(runner, requests, options, round))
      throw CaseFailed{runner.failure().sentence()};
    for (const auto& [id, r] : round.requests)
      if (!r.failed.empty()) throw CaseFailed{"request " + std::to_string(id) + ": " + r.failed};
  }

  Request prompt(uint64_t id, size_t row, int64_t new_tokens) const {
    Request request;
    request.id = id;
    request.tokens = golden_.rows[row];
    request.tensors = golden_.tensors[row];
    request.new_tokens = new_tokens;
    return request;
  }

  // Runs one row after the other, so that a tap belongs to one row.
  void plain() {
    RankGroup runner(runner_options(), ranks());
    const SessionInfo info = open(runner, plain_limits());
    report_.device = info.device;
    std::set<std::string> used;
    for (const auto& phase : info.phases)
      for (const auto& node : phase.nodes) {
        used.insert(node.provider);
        report_.ops.insert({phase.name, node.op, node.provider});
      }
    report_.providers.assign(used.begin(), used.end());
    if (!golden_.hidden.empty() || !golden_.outputs.empty()) {
      std::vector<Round> rounds(golden_.rows.size());
      for (size_t b = 0; b < golden_.rows.size(); ++b) {
        drive(runner, {engine_->scored(prompt(b + 1, b, 0))}, true, rounds[b]);
      }
      compare_taps(rounds);
      compare_outputs(rounds, "");
    }
    if (!continues_) return;
    for (size_t b = 0; b < golden_.greedy.size(); ++b) {
      Round round;
      drive(runner, {prompt(1, b, static_cast<int64_t>(golden_.greedy[b].size()))}, false, round);
      judge_tokens("greedy", round.requests.at(1).tokens, golden_.greedy[b]);
    }
    if (options_.decode > 0) decoded(runner);
    if (!options_.stress) return;
    for (const Request& request : mixed_requests()) {
      Round round;
      drive(runner, {request}, false, round);
      alone_[request.id] = round.requests.at(request.id).tokens;
    }
  }

  // Runs all rows at once. Each is a prompt that is forced to continue with the rest of the row. So
  // the wanted logits are those of a prefill of the whole row.
  void decoded(RankGroup& runner) {
    std::vector<Request> requests;
    for (size_t b = 0; b < golden_.rows.size(); ++b) {
      Request request = prompt(b + 1, b, options_.decode + 1);
      request.forced.assign(request.tokens.end() - options_.decode, request.tokens.end());
      request.tokens.resize(request.tokens.size() - static_cast<size_t>(options_.decode));
      request.logits = true;
      requests.push_back(engine_->scored(std::move(request)));
    }
    std::vector<Round> rounds(1);
    drive(runner, requests, false, rounds[0]);
    compare_outputs(rounds, "decoded: ");
  }

  // Finds a tap in any phase; requests are only scored, so nothing is decoded.
  std::vector<const NamedTensor*> taps(const std::vector<Round>& rounds,
                                       const std::string& name) const {
    std::vector<const NamedTensor*> parts;
    for (const auto& round : rounds)
      for (const auto& tensor : round.taps) {
        if (tensor.name.substr(tensor.name.find(':') + 1) != name) continue;
        parts.push_back(&tensor);
        if (engine_->repeats_inputs()) break;
      }
    return parts;
  }

  void compare_taps(const std::vector<Round>& rounds) {
    for (const auto& [name, want] : golden_.hidden) {
      const auto parts = taps(rounds, name);
      if (parts.empty())
        report_.rows.push_back({name, false, true, 0, 0, 0, "not compared: no such tap"});
      else
        judge_values(name, stacked(parts, want.shape), want);
    }
  }

  // File names follow the rows' names: "decoded.logits" for "decoded: logits".
  void save() const {
    std::map<std::string, TensorView> views;
    for (const auto& [name, tensor] : computed_) views.emplace(name, tensor);
    write_safetensors(options_.save / (golden_.name + ".safetensors"), views);
  }

  // Compares requests 1, 2, ... with the rows, in any order of rounds.
  void compare_outputs(const std::vector<Round>& rounds, const std::string& prefix) {
    std::map<uint64_t, const RequestResult*> rows;
    for (const auto& round : rounds)
      for (const auto& [id, r] : round.requests)
        if (id >= 1 && id <= golden_.rows.size()) rows[id] = &r;
    std::vector<std::vector<NamedTensor>> results;
    for (const auto& [id, r] : rows) results.push_back(engine_->results(*r));
    for (const auto& [name, want] : golden_.outputs) {
      std::vector<const NamedTensor*> parts;
      for (const auto& row : results)
        for (const auto& tensor : row)
          if (tensor.name == name) parts.push_back(&tensor);
      // A tap stands in for an output that is no answer. Batched rows have another layout.
      if (parts.empty() && prefix.empty()) parts = taps(rounds, name);
      if (parts.empty() && prefix.empty())
        report_.rows.push_back({name, false, true, 0, 0, 0, "not compared: no such output"});
      else if (!parts.empty())
        judge_values(prefix + name, stacked(parts, want.shape), want);
    }
  }

  void judge_values(const std::string& what, Tensor got, const Tensor& want) {
    const Difference d = compare(got, want, options_.dtype == DType::f32 ? limit_ : -1);
    const double share = share_of_few(d, want);
    const double rms = share * d.rms_of_spread, worst = share * d.max_error_of_spread;
    const bool ok = d.nan_count == 0 && (options_.dtype == DType::f32 ? worst : rms) <= limit_;
    report_.rows.push_back({what, true, ok, rms, worst, limit_, ok ? "" : d.pattern});
    if (options_.save.empty()) return;
    std::string name = what;
    if (const size_t colon = name.find(": "); colon != std::string::npos)
      name.replace(colon, 2, ".");
    computed_[name] = std::move(got);
  }

  // In 16 bits two tokens may be closer than rounding. Then tokens are shown and not judged.
  void judge_tokens(const std::string& what, const std::vector<int64_t>& got,
                    const std::vector<int64_t>& want) {
    const auto [at, unused] = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
    const bool same = got == want;
    const auto index = static_cast<size_t>(at - got.begin());
    std::string text = "all " + std::to_string(want.size()) + " equal";
    if (!same)
      text = "the first difference is token " + std::to_string(index) + "; got " +
             tokens_text(got) + ", wanted " + tokens_text(want);
    report_.rows.push_back({what, options_.dtype == DType::f32, same, 0, 0, 0, text});
  }

  // The tokens up to the last one which stands for a row of a tensor.
  size_t least_tokens(const Request& request) const {
    const auto& all = engine_->form().placeholders;
    const auto last = std::find_if(request.tokens.rbegin(), request.tokens.rend(),
                                   [&](int64_t t) { return t >= 0 && std::ranges::count(all, t); });
    return static_cast<size_t>(request.tokens.rend() - last);
  }

  // Prefixes of the rows in several lengths, so that batches are ragged and requests come and go.
  std::vector<Request> mixed_requests() const {
    std::vector<Request> list;
    int64_t context = plain_limits().max_context;
    if (engine_->form().positions > 0) context = std::min(context, engine_->form().positions);
    if (context < 2) return list;
    uint64_t id = 1000;
    for (size_t b = 0; b < golden_.rows.size(); ++b) {
      for (const size_t part : {1, 2, 3, 5}) {
        Request request =
            prompt(id++, b, std::max<int64_t>(new_tokens_, 8) / static_cast<int64_t>(part));
        // A row may fill the context: one place stays for a token.
        const size_t length =
            std::max((request.tokens.size() + part - 1) / part, least_tokens(request));
        request.tokens.resize(std::min(length, static_cast<size_t>(context - 1)));
        const int64_t room = context - static_cast<int64_t>(request.tokens.size());
        request.new_tokens = std::clamp<int64_t>(request.new_tokens, 1, room);
        list.push_back(std::move(request));
      }
    }
    return list;
  }

  void stress() {
    RankGroup runner(runner_options(), ranks());
    open(runner, stress_limits(), {1, 2});  // steps of decode in three sizes of the phase
    std::vector<Request> requests;
    std::map<uint64_t, std::vector<int64_t>> want;
    for (size_t b = 0; b < golden_.rows.size(); ++b) {
      Request request = prompt(b + 1, b, 0);
      if (b < golden_.greedy.size()) {
        request.new_tokens = static_cast<int64_t>(golden_.greedy[b].size());
        want[request.id] = golden_.greedy[b];
      }
      if (request.new_tokens == 0 || golden_.outputs.count("logits") > 0)
        request = engine_->scored(std::move(request));
      requests.push_back(std::move(request));
    }
    if (continues_) {
      for (auto& request : mixed_requests()) {
        want[request.id] = alone_.at(request.id);
        requests.push_back(std::move(request));
      }
    }
    std::vector<Round> rounds(1);
    drive(runner, requests, false, rounds[0]);
    compare_outputs(rounds, "stress: ");
    if (want.empty()) return;
    size_t equal = 0;
    std::string text;
    for (const auto& [id, tokens] : want) {
      const auto& got = rounds[0].requests.at(id).tokens;
      equal += got == tokens;
      if (got != tokens && text.empty())
        text = "; request " + std::to_string(id) + " got " + tokens_text(got) + ", wanted " +
               tokens_text(tokens);
    }
    report_.rows.push_back(
        {"stress: greedy", options_.dtype == DType::f32, equal == want.size(), 0, 0, 0,
         std::to_string(equal) + " of " + std::to_string(want.size()) + " requests equal" + text});
  }

  const GoldenCase& golden_;
  const VerifyOptions& options_;
  const PluginSet& plugin_set_;
  const Catalog& catalog_;
  VerifyReport& report_;
  std::unique_ptr<Model> model_;
  std::vector<WeightBlock> weights_;  // by rank
  std::unique_ptr<Engine> engine_;
  bool continues_ = false;
  Ranking ranking_;  // as in `run`
  int64_t new_tokens_ = 0;
  double limit_ = 0;
  std::map<std::string, Tensor> computed_;          // only for save()
  std::map<uint64_t, std::vector<int64_t>> alone_;  // tokens of mixed requests that ran alone
};

}  // namespace

double verify_limit(DType dtype, int64_t layers) {
  if (dtype == DType::f32) return 1e-4;
  return 4 * epsilon(dtype) * std::sqrt(static_cast<double>(layers + 1));
}

bool VerifyReport::passed() const {
  if (!error.empty()) return false;
  bool any = false;
  for (const auto& row : rows) {
    if (row.judged && !row.ok) return false;
    any = any || row.judged;
  }
  return any;
}

VerifyReport verify_case(const std::filesystem::path& folder, const VerifyOptions& options,
                         const PluginSet& plugin_set, const Catalog& catalog) {
  VerifyReport report;
  report.folder = folder.string();
  report.name = folder.filename().string();
  const double start = now_seconds();
  try {
    GoldenCase golden = GoldenCase::load(folder);
    report.name = golden.name;
    report.arch = arch_of(golden.config);
    CheckpointFit fit = fit_checkpoint(report.arch, golden.config,
                                       Checkpoint::open(golden.weights, golden.config), catalog);
    golden.config = std::move(fit.config);
    report.notes = std::move(fit.notes);
    Verifier(golden, options, plugin_set, catalog, report).run();
  } catch (const Error& e) {
    report.error = e.what();
    report.bad_input = true;
  } catch (const CaseFailed& e) {
    report.error = e.why;
  }
  report.seconds = now_seconds() - start;
  return report;
}

}  // namespace fk
