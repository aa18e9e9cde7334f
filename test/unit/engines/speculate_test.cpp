// SPDX-License-Identifier: Apache-2.0
// If this fails, speculation changes a request's answer, or reads keys and values outside of its
// path. The test's programs answer with a hash of all entries which they find in their caches,
// through tables, masks and moves.
#include "core/engines/speculate/speculate.hpp"

#include "core/tensor/random.hpp"
#include "test/catch.hpp"
#include "test/unit/engines/fake_model.hpp"

namespace {

constexpr int64_t kPage = 4, kK = 3;

struct World {
  mutant::Cache target, draft;
  std::map<int64_t, uint64_t> aux, hidden;  // by row: hashes of what was seen
  int skill = 0;                            // of 10 guesses this many are right
};

uint64_t hash_of(const std::vector<int64_t>& context) {
  uint64_t h = 1;
  for (const int64_t token : context) h = mutant::mix(h, token);
  return h;
}

// A program of inputs only; what run() does is up to the phase.
class Phase : public fk::Program {
 public:
  Phase(std::map<std::string, int64_t> limits, std::map<std::string, size_t> inputs)
      : limits_(std::move(limits)), bound_(limits_) {
    for (const auto& [name, bytes] : inputs) inputs_[name].resize(bytes);
    for (const auto& [name, limit] : limits_) names_.push_back(name);
  }
  int axis(const std::string& name) const override {
    const auto it = std::find(names_.begin(), names_.end(), name);
    return it == names_.end() ? -1 : static_cast<int>(it - names_.begin());
  }
  int64_t limit(const std::string& axis) const override { return limits_.at(axis); }
  void bind(int axis, int64_t value) override {
    const std::string& name = names_[static_cast<size_t>(axis)];
    if (value < 0 || value > limits_.at(name)) fk::fail("mutant", "axis " + name + " out of range");
    bound_[name] = value;
  }
  void* input(const std::string& name) override {
    const auto it = inputs_.find(name);
    return it == inputs_.end() ? nullptr : it->second.data();
  }
  void run() override { body(*this); }
  Output output(const std::string&) const override { fk::fail("mutant", "nobody needs it"); }
  void read(const std::string& output, void* host, int64_t bytes) override {
    const bool ids = output == "tokens";
    const size_t have = ids ? tokens.size() * 8 : floats.size() * 4;
    if (have != static_cast<size_t>(bytes)) fk::fail("mutant", "a read of another size");
    if (have == 0) return;
    std::memcpy(host, ids ? static_cast<const void*>(tokens.data()) : floats.data(), have);
  }
  void set_taps(fk::TapSink) override {}
  void set_watch(fk::NodeWatch*) override {}
  void set_marker(volatile int32_t*) override {}
  const std::vector<NodeInfo>& nodes() const override { return nodes_; }
  int64_t arena_bytes() const override { return 0; }

  template <class T>
  T in(const char* name, int64_t index) const {
    T out;
    std::memcpy(&out, inputs_.at(name).data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return out;
  }
  bool has(const char* name) const { return inputs_.count(name) > 0; }
  int64_t value(const char* axis) const { return bound_.at(axis); }

  // Puts the tokens of the step where they belong.
  void append(mutant::Cache& cache) const {
    for (int64_t t = 0; t < value("T"); ++t)
      cache.at(static_cast<size_t>(in<int64_t>("slot_mapping", t))) = {in<int64_t>("ids", t),
                                                                       in<int64_t>("positions", t)};
  }
  // The tokens which token t sees: every position from `from` to its own once, in order.
  std::vector<int64_t> seen(const mutant::Cache& cache, int64_t t, int64_t from) const {
    int64_t b = 0;
    while (in<int32_t>("cu_seqlens", b + 1) <= t) ++b;
    const int64_t length = in<int32_t>("seq_lens", b);
    const int64_t tree = has("tree_lens") ? in<int32_t>("tree_lens", b) : 0;
    std::vector<int64_t> context;
    const int64_t own = in<int64_t>("positions", t);
    for (int64_t p = 0; p < length; ++p) {
      const int64_t node = p - (length - tree);
      if (node < 0 && !has("tree_lens") && p > own) break;
      if (node >= 0 && in<int32_t>("tree_mask", t * value("TW") + node) == 0) continue;
      const int64_t page = in<int32_t>("block_tables", b * value("W") + p / kPage);
      const mutant::Cell& cell = cache.at(static_cast<size_t>(page * kPage + p % kPage));
      if (cell.position != from + static_cast<int64_t>(context.size()))
        fk::fail("mutant", "the cache holds another position");
      context.push_back(cell.token);
    }
    if (static_cast<int64_t>(context.size()) != own - from + 1) fk::fail("mutant", "a hole");
    return context;
  }

  std::function<void(Phase&)> body;
  std::vector<int64_t> tokens;
  std::vector<float> floats;
  int64_t runs = 0;

 private:
  std::map<std::string, int64_t> limits_, bound_;
  std::vector<std::string> names_;
  std::map<std::string, std::vector<char>> inputs_;
  std::vector<NodeInfo> nodes_;
};

std::map<std::string, size_t> inputs(int64_t tokens, int64_t batch, int64_t width, int64_t rows,
                                     int64_t tree) {
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  std::map<std::string, size_t> all;
  for (const char* name : {"ids", "positions", "slot_mapping"}) all[name] = size(tokens) * 8;
  for (const char* name : {"aux_rows", "hidden_rows"}) all[name] = size(tokens) * 4;
  for (const char* name : {"rows", "state_rows", "temperature", "top_k", "top_p", "uniform"})
    all[name] = size(rows) * 4;
  all["cu_seqlens"] = size(batch + 1) * 4;
  all["seq_lens"] = size(batch) * 4;
  all["block_tables"] = size(batch * width) * 4;
  if (tree == 0) return all;
  all["tree_lens"] = size(batch) * 4;
  all["tree_mask"] = size(tokens * tree) * 4;
  return all;
}

// The target: a row's token is the answer to what it sees; leaves a hash of it for the draft.
void target(World& world, Phase& p) {
  ++p.runs;
  p.append(world.target);
  world.aux.clear();
  for (int64_t t = 0; t < p.value("T"); ++t) world.aux[t] = hash_of(p.seen(world.target, t, 0));
  p.tokens.clear();
  p.floats.assign(static_cast<size_t>(p.value("Q") * mutant::kVocab), 0.F);
  for (int64_t q = 0; q < p.value("Q"); ++q) {
    const auto context = p.seen(world.target, p.in<int32_t>("rows", q), 0);
    p.tokens.push_back(
        mutant::answer(context, p.in<float>("temperature", q), p.in<float>("uniform", q)));
    p.floats[static_cast<size_t>(q * mutant::kVocab + p.tokens.back())] = 1;
  }
}

// Guesses after a text, the hash of which is known: right by chance.
void guess(World& world, Phase& p, uint64_t hash) {
  const int64_t right = static_cast<int64_t>(hash >> 40) % mutant::kVocab;
  const auto luck = static_cast<int64_t>((hash >> 7) % 10);
  for (int64_t k = 0; k < kK; ++k) {
    const bool is_right = luck < world.skill && k == luck % kK;
    p.tokens.push_back(is_right ? right : (right + 1 + k) % mutant::kVocab);
    p.floats.push_back(-0.3F * static_cast<float>(k + 1));
  }
}

// The draft at position i knows the hash of the target's tokens up to i and the token after it.
void extend(World& world, Phase& p) {
  p.append(world.draft);
  p.tokens.clear();
  p.floats.clear();
  for (int64_t t = 0; t < p.value("T"); ++t) {
    const auto tokens = p.seen(world.draft, t, 0);  // 1 .. i+1
    world.hidden[-1 - t] = mutant::mix(world.aux.at(p.in<int32_t>("aux_rows", t)), tokens.back());
  }
  for (int64_t q = 0; q < p.value("Q"); ++q) {
    const uint64_t hash = world.hidden.at(-1 - p.in<int32_t>("rows", q));
    world.hidden[p.in<int32_t>("state_rows", q)] = hash;
    guess(world, p, hash);
  }
}
void draft(World& world, Phase& p) {
  ++p.runs;
  p.append(world.draft);
  p.tokens.clear();
  p.floats.clear();
  std::vector<uint64_t> hashes;
  for (int64_t t = 0; t < p.value("T"); ++t) {
    const auto tokens = p.seen(world.draft, t, 0);
    hashes.push_back(mutant::mix(world.hidden.at(p.in<int32_t>("hidden_rows", t)), tokens.back()));
  }
  for (int64_t t = 0; t < p.value("T"); ++t) {
    world.hidden[p.in<int32_t>("state_rows", t)] = hashes[static_cast<size_t>(t)];
    guess(world, p, hashes[static_cast<size_t>(t)]);
  }
}

struct SpeculateSetting {
  int64_t max_batch, max_context, chunk, rows, pages, depth, tokens;
  int skill;
};

fk::SpeculateStats serve(const SpeculateSetting& s, const std::vector<fk::Request>& requests,
                         mutant::Exchange& exchange) {
  fk::SpeculateSetup setup;
  setup.options = {.eos = {}, .depth = s.depth, .top_k = kK, .tokens = s.tokens};
  setup.generate = {s.max_batch, s.max_context, kPage, s.pages, mutant::kVocab, {}};
  const int64_t slots = setup.options.slots(), batch = s.max_batch;
  const int64_t expanded = std::max<int64_t>(1, setup.options.expansions());
  const int64_t width = (s.max_context + slots + kPage - 1) / kPage, tree = batch * s.tokens;
  World world;
  world.skill = s.skill;
  world.target.resize(static_cast<size_t>(s.pages * kPage));
  world.draft = world.target;
  const int64_t again = std::max(s.chunk, batch * (s.depth + 1));
  Phase prefill({{"T", s.chunk}, {"B", batch}, {"Q", s.rows}, {"W", width}},
                inputs(s.chunk, batch, width, s.rows, 0));
  Phase verify({{"T", tree}, {"B", batch}, {"Q", tree}, {"W", width}, {"TW", s.tokens}},
               inputs(tree, batch, width, tree, s.tokens));
  Phase accept({{"M", batch * s.depth}}, {{"from_slots", static_cast<size_t>(batch * s.depth * 8)},
                                          {"to_slots", static_cast<size_t>(batch * s.depth * 8)}});
  Phase extension({{"T", again}, {"B", batch}, {"Q", batch}, {"W", width}},
                  inputs(again, batch, width, batch, 0));
  Phase drafts({{"T", batch * kK}, {"B", batch}, {"W", width}, {"TW", expanded}},
               inputs(batch * kK, batch, width, batch * kK, expanded));
  prefill.body = verify.body = [&](Phase& p) { target(world, p); };
  extension.body = [&](Phase& p) { extend(world, p); };
  drafts.body = [&](Phase& p) { draft(world, p); };
  accept.body = [&](Phase& p) {
    const mutant::Cache before = world.target;
    for (int64_t m = 0; m < p.value("M"); ++m)
      world.target.at(static_cast<size_t>(p.in<int64_t>("to_slots", m))) =
          before.at(static_cast<size_t>(p.in<int64_t>("from_slots", m)));
  };
  exchange.requests.assign(requests.begin(), requests.end());
  return fk::speculate({prefill, verify, accept, extension, drafts}, exchange, setup);
}

std::vector<fk::Request> mixed(int count, int64_t prompt_max, int64_t new_max) {
  fk::Random random(11);
  std::vector<fk::Request> requests;
  for (int i = 0; i < count; ++i) {
    fk::Request& r = requests.emplace_back();
    r.id = static_cast<uint64_t>(i) + 1;
    for (int64_t n = random.integer(1, prompt_max + 1); n > 0; --n)
      r.tokens.push_back(random.integer(0, mutant::kVocab));
    r.new_tokens = random.integer(i % 9 == 0 ? 0 : 1, new_max + 1);
    r.prompt_logits = i % 3 == 0;
    if (i % 2 == 0) r.first_logits = i % 7;
    r.logits = i % 4 == 0;
    if (i % 5 == 2) r.sampling = {1.F, 0, 1.F, random.next()};
    if (i % 5 == 3) r.forced = {1, 2, 3, 4};
  }
  return requests;
}

}  // namespace

TEST_CASE("speculate_gives_every_request_what_the_target_alone_would") {
  const auto requests = mixed(40, 30, 24);
  for (const SpeculateSetting& s : {SpeculateSetting{8, 64, 64, 16, 400, 4, 9, 7},
                                    {8, 64, 5, 8, 400, 3, 6, 10},
                                    {3, 64, 7, 4, 60, 4, 12, 9},
                                    {1, 64, 16, 1, 40, 2, 4, 5},
                                    {5, 64, 13, 5, 50, 5, 16, 10},
                                    {4, 64, 64, 8, 200, 1, 3, 10}}) {
    mutant::Exchange exchange;
    serve(s, requests, exchange);
    CHECK(exchange.failures.empty());
    for (const auto& r : requests) {
      INFO("request " << r.id << " of batches of " << s.max_batch << ", depth " << s.depth);
      if (r.new_tokens > 0) CHECK(exchange.tokens[r.id] == mutant::expected(r));
      // Logits of every position once, and each is the answer to its own context.
      std::vector<int64_t> context = r.tokens;
      const auto written = mutant::expected(r);
      context.insert(context.end(), written.begin(), written.end());
      const auto prompt = static_cast<int64_t>(r.tokens.size());
      std::vector<int64_t> wanted, got;
      for (int64_t p = 0; p < prompt + std::max<int64_t>(r.new_tokens - 1, 0); ++p)
        if ((r.prompt_logits && p < prompt && p >= std::min(r.first_logits, prompt - 1)) ||
            (r.logits && p >= prompt - 1))
          wanted.push_back(p);
      if (r.new_tokens == 0 && !r.prompt_logits) wanted.clear();
      for (const auto& [position, argmax] : exchange.scored[r.id]) got.push_back(position);
      CHECK(got == wanted);
    }
  }
}

TEST_CASE("speculate_takes_more_tokens_a_step_from_a_better_draft") {
  auto requests = mixed(20, 10, 24);
  for (auto& r : requests) {
    r.sampling = {};
    r.forced.clear();
    r.new_tokens = 24;
  }
  double before = 0.9;
  for (const int skill : {0, 5, 10}) {
    mutant::Exchange exchange;
    const auto stats = serve({4, 64, 64, 8, 200, 4, 12, skill}, requests, exchange);
    if (skill == 0) CHECK(stats.mean() < 1.3);
    CHECK(stats.mean() > before);
    before = stats.mean();
  }
  CHECK(before > 2.5);
}
