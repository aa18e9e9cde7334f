// SPDX-License-Identifier: Apache-2.0
// The JSON of `run`, from the fields of its report.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/report/document.hpp"
#include "core/report/run_text.hpp"

namespace fk {

template <class T>
std::optional<T> null_unless(bool there, const T& value) {
  return there ? std::optional(value) : std::nullopt;
}

template <class Visitor>
void fields(Visitor& v, Figure& f) {
  v("median", f.median, "median");
  v("p10", f.p10, "10th percentile");
  v("p90", f.p90, "90th percentile");
  v("count", f.count, "number of values");
}

// A figure that only one metric has.
struct MetricFigure {
  std::string name;
  double value = 0, limit = 0;
};
template <class Visitor>
void fields(Visitor& v, MetricFigure& f) {
  v("name", f.name, "the figure");
  v("value", f.value, "its value; 0 is best");
  v("limit", f.limit, "the largest that is right; null: it is not judged");
}

template <class Visitor>
void fields(Visitor& v, CorrectnessRow& c) {
  std::vector<MetricFigure> figures;
  for (size_t i = 0; i < std::min(c.errors.more.size(), c.limits.more.size()); ++i)
    figures.push_back({c.errors.more[i].name, c.errors.more[i].value, c.limits.more[i]});
  v("ok", c.ok, "whether the answers are right");
  v("why", c.why, "why they are not");
  v("rms_of_spread", c.errors.rms, "root mean square of the errors over the spread");
  v("rms_limit", c.limits.rms, "the largest that is right");
  v("worst1_of_spread", c.errors.worst1, "error of the worst 1 % of the positions");
  v("worst1_limit", c.limits.worst1, "the largest that is right");
  v("best5_of_spread", c.errors.best5, "error of the best 5 % of the positions");
  v("best5_limit", c.limits.best5, "the largest that is right");
  v("rerouted_positions", c.errors.rerouted, "positions whose experts are others");
  v("positions", c.errors.rows, "compared positions");
  v("values", c.errors.values, "compared values");
  v("figures", figures, "further figures of the metric");
  v("pattern", c.errors.pattern, "which values are wrong, in words");
  v("of_allowed", c.of_allowed,
    "the worst error as a multiple of what is allowed; null: a result is missing or NaN");
  v("mutant_of_allowed", c.mutant_of_allowed,
    "the same of the best answer without work: zeros, or one number everywhere");
}

template <class Visitor>
void fields(Visitor& v, Speedup& s) {
  v("ratio", s.ratio, "the baseline's time over the candidate's");
  v("low", s.low, "lower end of the 95 % interval");
  v("high", s.high, "upper end; null: unknown");
  v("by_process", s.by_process, "the ratio of each pair of processes");
  v("pairs", s.pairs, "pairs of rounds");
}

template <class Visitor>
void fields(Visitor& v, RecordedAnswers& r) {
  v("equal", r.equal, "answers with the recorded tokens");
  v("of", r.of, "recorded answers");
}

template <class Visitor>
void fields(Visitor& v, WorkloadRow& w) {
  const auto figure = [&v](const char* key, const Figure& f, const char* meaning) {
    auto some = null_unless(f.count > 0, f);
    v(key, some, meaning);
  };
  v("workload", w.workload, "the workload");
  v("kind", w.kind, "throughput, latency or replay");
  v("done", w.done, "whether it was done");
  v("why", w.why, "why it was not done, or why its answers are wrong");
  v("rounds", w.rounds, "measured rounds");
  v("requests", w.requests, "requests of a round");
  v("prompt_tokens", w.prompt_tokens, "prompt tokens of a round");
  v("output_tokens", w.output_tokens, "output tokens of a round");
  figure("round_s", w.total_s, "time of a round");
  v("round_s_by_process", w.by_process_s, "median time of a round in each process");
  figure("prefill_tokens_per_s", w.prefill_tokens_s, "prompt tokens a second");
  figure("decode_tokens_per_s", w.decode_tokens_s, "output tokens a second");
  figure("first_token_s", w.first_token_s, "time until the first token of a request");
  figure("token_s", w.token_s, "time between tokens of a request");
  v("as_recorded", w.as_recorded,
    "the answers of a recording beside this side's; null: none was recorded");
}

// A row of a candidate has more than one of the baseline.
struct CandidateWorkload : WorkloadRow {};
template <class Visitor>
void fields(Visitor& v, CandidateWorkload& w) {
  fields(v, static_cast<WorkloadRow&>(w));
  auto speedup = null_unless(w.speedup.pairs > 0, w.speedup);
  v("speedup", speedup, "speed beside the baseline; null: not measured");
  v("verdict", w.verdict, "what the interval says about speed");
  v("same_tokens", w.same_tokens, "share of tokens equal to the baseline's in the last round");
}

template <class Visitor>
void fields(Visitor& v, OpRow& o) {
  v("phase", o.phase, "the phase");
  v("op", o.op, "the op");
  v("level", o.level, "its level");
  v("provider", o.provider, "the provider");
  v("nodes", o.nodes, "nodes that it runs");
  v("refusal", o.refusal, "why the first provider refused; empty: it did not");
}

template <class Workload, class Visitor>
void side_fields(Visitor& v, SideReport& s) {
  auto correctness = null_unless(s.correctness.done, s.correctness);
  std::vector<Workload> workloads;
  for (const WorkloadRow& w : s.workloads) workloads.push_back(Workload{w});
  v("name", s.name, "the plugin");
  v("version", s.version, "its version");
  v("path", s.path, "its file");
  v("verdict", s.verdict, "correct, wrong, failed, refused or unused");
  v("why", s.why, "one sentence");
  v("private_bytes", s.private_bytes, "packed weights, states and scratch memory");
  v("ops", s.ops, "who runs which op");
  v("correctness", correctness, "comparison with the reference; null: not compared");
  v("workloads", workloads, "one row for each workload");
  v("log", s.log, "what its process printed");
}
template <class Visitor>
void fields(Visitor& v, SideReport& s) {
  side_fields<WorkloadRow>(v, s);
}
struct CandidateReport : SideReport {};
template <class Visitor>
void fields(Visitor& v, CandidateReport& s) {
  side_fields<CandidateWorkload>(v, s);
  v("plugins", s.plugins, "its plugins; with --together there may be several");
  v("protections", s.protections, "the sandbox of its process");
}

// Clocks in pairs of the lowest and the highest.
struct RunClocks {
  ClockWatch of;
};
template <class Visitor>
void fields(Visitor& v, RunClocks& c) {
  ClockWatch& w = c.of;
  std::vector sm{w.sm_mhz_low, w.sm_mhz_high}, memory{w.memory_mhz_low, w.memory_mhz_high};
  v("looks", w.looks, "how often the driver was asked");
  v("sm_mhz", sm, "lowest and highest clock of the multiprocessors, MHz");
  v("memory_mhz", memory, "lowest and highest clock of the memory, MHz");
  v("throttled", w.throttled, "share of looks at which the device was slowed down, 0 to 1");
  v("reasons", w.reasons, "why the clocks were not higher");
}

template <class Visitor>
void fields(Visitor& v, TooLarge& t) {
  v("what", t.what, "what does not fit");
  v("needs_bytes", t.needs_bytes, "bytes that it needs of one device");
  v("device_bytes", t.device_bytes, "bytes that the device has");
}

template <class Visitor>
void fields(Visitor& v, TracedOp& t) {
  v("side", t.side, "baseline, or the candidate");
  v("phase", t.phase, "the phase");
  v("op", t.op, "the op");
  v("provider", t.provider, "its provider");
  v("steps", t.steps, "traced steps of the phase");
  v("calls", t.calls, "calls of the op in these steps");
  v("seconds", t.seconds,
    "time of all these calls, one after the other, by the side's own process");
}

template <class Visitor>
void fields(Visitor& v, Mark& m) {
  v("kind", m.kind, "line, dots or boxes");
  v("colour", m.colour, "number of a colour of the page, 0 to 7; 7 is grey");
  v("width", m.width, "pixels of a line, or of a dot");
  v("at", m.at, "x and y in turn; a box has two corners");
}
template <class Visitor>
void fields(Visitor& v, Drawing::Key& k) {
  v("colour", k.colour, "number of a colour");
  v("text", k.text, "its meaning");
}
template <class Visitor>
void fields(Visitor& v, Drawing& d) {
  v("width", d.width, "of the frame, in the units of `at`");
  v("height", d.height, "of the frame; y grows downwards");
  v("marks", d.marks, "later ones cover earlier ones");
  v("keys", d.keys, "meanings of colours");
}
template <class Visitor>
void fields(Visitor& v, Picture& p) {
  v("result", p.result, "the result which is shown");
  v("side", p.side, "reference, baseline, or a candidate");
  v("difference", p.difference, "whether it is the side's difference from the reference");
  v("worst", p.worst, "largest difference, in `unit`");
  v("mean", p.mean, "mean difference");
  v.optional("unit", p.unit, !p.unit.empty(),
             "of both; without it, a share of the way from black to white");
  v("width", p.width, "columns of the PNG file, which may be smaller than the result");
  v("height", p.height, "its rows");
  v("png", p.png, "the PNG file in base64; empty: there is a drawing in its place");
  v.optional("drawing", p.drawing, p.drawing.height > 0,
             "lines, dots and boxes, which a page draws");
  v.optional("wav", p.wav, !p.wav.empty(), "of a sound: a WAV file in base64, its first seconds");
}

struct RunDocument {
  static constexpr const char* kSchema = "fk-host.run/2";
  static constexpr const char* kTitle = "What `fk-host run` found in one scenario";
  RunReport report;
};
template <class Visitor>
void fields(Visitor& v, RunDocument& d) {
  RunReport& r = d.report;
  int exit_code = r.exit_code();
  Json spent = Json::object();
  for (const auto& [what, seconds] : r.spent) spent[what] = seconds;
  std::vector<CandidateReport> candidates;
  for (const SideReport& side : r.candidates) candidates.push_back({side});
  auto clocks = null_unless(r.clocks.has_value(), RunClocks{r.clocks.value_or(ClockWatch{})});
  v("scenario", r.scenario, "the scenario");
  v("summary", r.summary, "its summary");
  v("arch", r.arch, "the model");
  v("layers", r.layers, "number of layers");
  v("metric", r.metric, "the metric of comparisons with the reference");
  v("profile", r.profile, "tiny or full");
  v("tp", r.parallel.tp, "ranks of tensor parallelism");
  v("ep", r.parallel.ep, "ranks of expert parallelism");
  v("overlap", r.parallel.overlap, "whether sums of ranks overlap with products");
  v("note", r.note, "about the profile");
  v("weights_notes", r.weights_notes, "about the checkpoint");
  v("random_weights", r.random_weights, "whether the weights are random numbers");
  v("room", r.room, "what differs from the scenario, to fit the device");
  v("dtype", r.dtype, "dtype of activations and weights");
  v("device", r.device, "the device");
  v("host", r.host, "the machine");
  v("driver", r.driver, "driver of the device");
  v("nccl", r.nccl, "whether NCCL may use NVLink multicast; empty: one rank, or no GPUs");
  v("host_build", r.host_build, "build id of fk-host");
  v("date", r.date, "begin of the run, UTC");
  v("clocks", clocks, "clocks of the first GPU; null: there is none");
  v("seed", r.seed, "seed of the weights");
  v("requests_seed", r.requests_seed, "seed of the requests");
  v("max_batch", r.max_batch, "most requests at the same time");
  v("pages", r.pages, "pages of the cache");
  v("weights_bytes", r.weights_bytes, "bytes of the weights");
  v("speed_judged", r.speed_judged, "whether speed was judged");
  v("processes", r.processes, "timed processes of each side");
  v("exit_code", exit_code, "exit code of the run");
  v("error", r.error, "why the run ended early; empty: it did not");
  v("too_large", r.too_large, "what does not fit the device; null: all fits");
  v("seconds", r.seconds, "time of the run");
  v("spent", spent, "seconds of each part, in order");
  v("broken_plugins", r.broken_plugins, "plugins that cannot be used");
  v("provider_order", r.provider_order, "origin of the order in which baselines are asked");
  v("baseline", r.baseline, "the baselines");
  v("candidates", candidates, "one entry for each candidate");
  v.optional("pictures", r.pictures, !r.pictures.empty(),
             "images of answers to the first request, with --html");
  v.optional("traced", r.traced, !r.traced.empty(), "times of ops, with --trace");
}
FK_DOCUMENT(run, RunDocument);

Json run_json(const RunReport& report) { return document(RunDocument{report}); }

// Several scenarios in one document.
struct RunsDocument {
  struct Entry {
    static constexpr const char* kSchemaFile = "run.json";
    RunDocument run;
  };
  static constexpr const char* kSchema = "fk-host.runs/1";
  static constexpr const char* kTitle = "What `fk-host run` found in a list of scenarios";
  std::vector<Entry> reports;
};
template <class Visitor>
void fields(Visitor& v, RunsDocument::Entry& e) {
  std::string schema = RunDocument::kSchema;
  v("schema", schema, "the form of the report");
  fields(v, e.run);
}
template <class Visitor>
void fields(Visitor& v, RunsDocument& d) {
  v("reports", d.reports, "one report for each scenario");
}
FK_DOCUMENT(runs, RunsDocument);

Json runs_json(const std::vector<RunReport>& reports) {
  RunsDocument out;
  for (const RunReport& report : reports) out.reports.push_back({{report}});
  return document(out);
}

}  // namespace fk
