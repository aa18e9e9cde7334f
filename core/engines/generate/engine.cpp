// SPDX-License-Identifier: Apache-2.0
#include "core/engines/generate/engine.hpp"

#include <algorithm>

#include "core/engines/generate/generate.hpp"
#include "core/engines/request_tensors.hpp"
#include "core/engines/text_engine.hpp"
#include "core/engines/text_load.hpp"

namespace fk {

int64_t generate_axis_limit(const std::string& phase, const std::string& axis,
                            const Limits& limits) {
  const bool decode = phase == "decode";
  const int64_t width = (limits.max_context + limits.page_size - 1) / limits.page_size;
  if (axis == "P") return limits.pages > 0 ? limits.pages : limits.max_batch * width;
  if (axis == "W") return width;
  if (axis == "N") return limits.max_batch;
  // The ranks of experts get equal parts of the tokens. The largest parts are those of the limit.
  const int64_t ep = limits.parallel.ep;
  const auto whole = [ep](int64_t tokens) { return (tokens + ep - 1) / ep * ep; };
  if (axis == "B") return decode ? whole(limits.max_batch) : limits.max_batch;
  if (axis == "T") return whole(decode ? limits.max_batch : limits.chunk_tokens);
  if (axis == "Q") {
    return decode ? limits.max_batch
                  : std::min(limits.chunk_tokens, std::max(limits.max_batch, kPrefillRows));
  }
  fail_axis(phase, axis, {"T", "B", "Q", "W", "P", "N"});
}

int64_t encoder_rows_most(int64_t of_request) {
  constexpr int64_t kRows = 8192;  // if one request has fewer
  return std::max(of_request, kRows);
}

namespace {

// Pages which requests share, kept from drive to drive while they have names. Null: the model has
// states beside its pages. Judged requests share nothing, and get fresh pages in each drive.
KvPagePool* shared_pool(Session& session, const GenerateSetup& setup) {
  for (const char* phase : {"prefill", "decode"})
    for (const char* input : {"state_slots", "has_initial_state", "source_lens"})
      if (!setup.encoders.empty() || session.phase(phase).input(input)) return nullptr;
  auto pool = std::static_pointer_cast<KvPagePool>(session.kept());
  if (!pool || !pool->has_names())
    session.kept() = pool = std::make_shared<KvPagePool>(setup.pages);
  return pool.get();
}

// The tensors of all encoders, each with its group.
RequestForm form_of(const GenerateOptions& options) {
  RequestForm form{
      .vocabulary = options.vocabulary, .positions = options.positions, .continues = true};
  for (const GenerateEncoder& encoder : options.encoders) {
    for (RequestTensor tensor : encoder.tensors) {
      tensor.group = std::ssize(form.placeholders);
      form.tensors.push_back(std::move(tensor));
    }
    form.placeholders.push_back(encoder.placeholder);
  }
  return form;
}

// The limit of an axis of an encoder of ragged tensors; 0: another axis. All requests of a batch
// may be long; a step of the encoder takes those that fit.
int64_t encoder_limit(const GenerateEncoder& encoder, const std::string& axis,
                      const Limits& limits) {
  const RequestTensor* ragged = ragged_of(encoder.tensors);
  if (ragged == nullptr) return 0;
  const int64_t most = ragged->shape[0];
  const int64_t rows = std::min(limits.max_batch * most, encoder_rows_most(most));
  if (axis == "S") return rows;
  const auto grid = std::ranges::find_if(encoder.tensors, &RequestTensor::shapes);
  if (grid != encoder.tensors.end() && grid->chunk > 0) {
    // A chunk which is not full ends a sound, and a request has few sounds.
    const int64_t chunks = 2 * ((rows + grid->chunk - 1) / grid->chunk);
    if (axis == "B") return chunks;
    if (axis == "E") return (rows + chunks) / 2;
    return axis == "R" ? (rows + chunks) / 4 : 0;
  }
  if (axis == "R" || axis == "G") return rows / ragged->multiple;
  return axis == "B" && grid != encoder.tensors.end() ? rows / ragged->multiple : 0;
}

class GenerateEngine final : public TextEngine {
 public:
  explicit GenerateEngine(GenerateOptions options)
      : TextEngine(form_of(options), Logits::of_next), options_(std::move(options)) {}

  std::string name() const override { return "generate"; }
  std::vector<std::string> phases() const override {
    std::vector<std::string> list;
    for (const GenerateEncoder& encoder : options_.encoders) list.push_back(encoder.phase);
    list.insert(list.end(), {"prefill", "decode"});
    return list;
  }
  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    for (const GenerateEncoder& encoder : options_.encoders)
      if (encoder.phase == phase)
        if (const int64_t limit = encoder_limit(encoder, axis, limits); limit > 0) return limit;
    if (axis == "M") return generate_axis_limit(phase, "T", limits);
    return generate_axis_limit(phase, axis, limits);
  }
  void drive(Session& session) const override {
    GenerateSetup setup = generate_setup(session, form(), options_.eos);
    for (const GenerateEncoder& encoder : options_.encoders)
      setup.encoders.push_back({&session.phase(encoder.phase), encoder, setup.source_rows()});
    setup.pool = shared_pool(session, setup);
    generate(session.phase("prefill"), session.phase("decode"), session.exchange(), setup);
  }

 private:
  GenerateOptions options_;
};

FK_ENGINE(generate, TextLoad::writes());

}  // namespace

std::unique_ptr<Engine> generate_engine(GenerateOptions options) {
  return std::make_unique<GenerateEngine>(std::move(options));
}

}  // namespace fk
