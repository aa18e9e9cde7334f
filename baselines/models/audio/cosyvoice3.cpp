// SPDX-License-Identifier: Apache-2.0
// CosyVoice 3, from speech tokens to a sound. Tokens, a prompt's spectrogram and a voice condition
// a flow, whose transformer turns noise into a spectrogram. A vocoder then makes the sound:
// harmonics of a predicted pitch, a stack of convolutions at growing rates, and an inverse
// transform. A step computes a request with its condition and without; those with it come first in
// a batch.
#include <fmt/format.h>

#include <cmath>

#include "baselines/models/parts/speech/cosyvoice3_sizes.hpp"
#include "baselines/models/parts/image.hpp"
#include "core/engines/denoise/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;

constexpr int64_t kSpeechTimeChannels = 256, kSpeechPositionTaps = 31, kSpeechPositionGroups = 16,
                  kPitchLayers = 5;
constexpr int64_t kSpeechCopies = 2;  // of a request in a step
constexpr double kSpeechEps = 1e-6;
const std::string kEstimator = "flow.decoder.estimator.";

class CosyVoice3 : public Model {
 public:
  explicit CosyVoice3(const Config& config) : config_(read_cosyvoice3(config)) {}

  std::unique_ptr<Engine> engine() const override {
    const SpeechSizes& c = config_;
    RequestTensor tokens{"speech_tokens", {c.tokens}};
    tokens.below = c.vocabulary;
    tokens.dtype = DType::i64;
    return denoise_engine(
        {.inputs = {tokens,
                    {"prompt_feat", {c.prompt_frames(), c.mel}},
                    {"embedding", {c.voice}},
                    {"noise", {c.frames(), c.mel}},
                    {"source_noise", {c.sound_frames() * c.frame_samples(), c.harmonics + 1}}},
         .sampler = c.sampler,
         .guidance = 1 + c.guidance,
         .outputs = {"mel", "audio"},
         .ends = true});
  }

  void forward(Net& n, const std::string& phase) const override {
    if (phase == "begin")
      begin(n);
    else if (phase == "step")
      step(n);
    else
      end(n);
  }

  std::vector<Unread> unread() const override {
    return {{kEstimator + "rotary_embed.inv_freq", "a table which follows from the sizes"}};
  }

 private:
  static std::string word(Net& n) { return std::string(name(n.limits().dtype)); }
  Expr batch(Net& n) const { return n.axis("B") * kSpeechCopies; }
  static Value rows_of(Net& n, Value v) {
    const Dims shape = n.shape(v);
    return n.reshape(v, {shape[0] * shape[1], shape[2]});
  }
  static Value product(Net& n, const std::string& path, Value x, int64_t width) {
    return n("linear", path, {{"out_features", width}, {"x", x}, {"out", word(n)}}, {"bias"});
  }
  static Value activated(Net& n, const std::string& path, Value x, const char* kind,
                         double alpha = 1) {
    return by_rows(n, "activation", path, x, {{"kind", kind}, {"alpha", alpha}});
  }
  // In the dtype of activations: as a transpose of columns with one element, only it changes.
  static Value typed(Net& n, const std::string& path, Value x) {
    Dims shape = n.shape(x);
    const Dims rows = {shape.size() == 3 ? shape[0] * shape[1] : shape[0], shape.back(), 1};
    return n.reshape(n("transpose", path, {{"x", n.reshape(x, rows)}, {"out", word(n)}}), shape);
  }
  static Value side_by_side(Net& n, const std::string& path, const std::vector<Value>& parts,
                            Value out = {}) {
    Ints sizes;
    int64_t width = 0;
    for (const Value part : parts) {
      sizes.push_back(n.shape(part)[1].value());
      width += sizes.back();
    }
    if (!out) out = n.empty(n.dtype(parts[0]), {n.shape(parts[0])[0], width});
    n("concat_channels", path,
      {{"num_parts", std::ssize(parts)},
       {"sizes", sizes},
       {"size", width},
       {"x", parts},
       {"out", out}});
    return out;
  }
  // Each row of x [B, T, C] `times` times.
  static Value repeated(Net& n, const std::string& path, Value x, int64_t times) {
    const Dims shape = n.shape(x);
    const Value wide =
        side_by_side(n, path, std::vector<Value>(static_cast<size_t>(times), rows_of(n, x)));
    return n.reshape(wide, {shape[0], shape[1] * times, shape[2]});
  }

  struct Conv {
    int64_t channels, taps, dilation = 1, stride = 1, groups = 1;
  };
  // A convolution along the lines x [B, T, C] behind `left` zeros, and before `right` ones.
  static Value conv(Net& n, const std::string& path, Value x, const Conv& c, int64_t left,
                    int64_t right = 0) {
    const Dims shape = n.shape(x);
    Value line = x;
    if (left > 0)
      line = n(
          "prepend_rows", path + ".left",
          {{"prefix_rows", left}, {"prefix", n.zeros(n.dtype(x), {left, shape[2]})}, {"x", line}});
    if (right > 0)
      line = n("prepend_rows", path + ".right",
               {{"prefix_rows", shape[1].value()},
                {"before", line},
                {"x", n.zeros(n.dtype(x), {shape[0], right, shape[2]})}});
    const Dims padded = n.shape(line);
    const Value y = n("conv2d", path,
                      {{"out_channels", c.channels},
                       {"kernel_size", Ints{1, c.taps}},
                       {"stride", Ints{1, c.stride}},
                       {"padding", Ints{0, 0}},
                       {"dilation", Ints{1, c.dilation}},
                       {"groups", c.groups},
                       {"x", n.reshape(line, {padded[0], 1, padded[1], padded[2]})}},
                      {"bias"});
    const Dims out = n.shape(y);
    return n.reshape(y, {out[0], out[2], out[3]});
  }
  static Value causal(Net& n, const std::string& path, Value x, const Conv& c) {
    return conv(n, path, x, c, (c.taps - 1) * c.dilation);
  }
  static Value sum(Net& n, const std::string& path, Value a, Value b) {
    const Dims shape = n.shape(a);
    return n.reshape(n("add", path, {{"a", rows_of(n, a)}, {"b", rows_of(n, b)}}), shape);
  }

  Value latent(Net& n) const {
    return n.state("latent", DType::f32, {n.axis("B"), config_.frames(), config_.mel});
  }
  Value source_noise(Net& n) const {
    const int64_t samples = config_.sound_frames() * config_.frame_samples();
    return n.state("source_noise", DType::f32, {n.axis("B"), samples, config_.harmonics + 1});
  }
  // Spectrogram of the prompt, tokens and voice for each frame, and zeros for the copies without.
  Value conditions(Net& n) const {
    return n.state("conditions", n.limits().dtype, {batch(n), config_.frames(), 3 * config_.mel});
  }

  void begin(Net& n) const {
    const SpeechSizes& c = config_;
    const Expr each = n.axis("B");
    const Value all = rows_of(n, conditions(n));
    const Expr rows = each * c.frames();
    side_by_side(n, "flow.condition",
                 {rows_of(n, prompt(n)), rows_of(n, spoken(n)), rows_of(n, voice(n))},
                 n.slice(all, 0, 0, rows));
    side_by_side(n, "flow.no_condition", {n.zeros(n.limits().dtype, {rows, 3 * c.mel})},
                 n.slice(all, 0, rows, rows));
    n("scaled_add", "noise",
      {{"scale", c.sampler.noise},
       {"y", rows_of(n, n.input("noise", DType::f32, {each, c.frames(), c.mel}))},
       {"out", rows_of(n, latent(n))}});
    const Value source = source_noise(n);
    n("scaled_add", "source_noise",
      {{"scale", 1.0},
       {"y", rows_of(n, n.input("source_noise", DType::f32, n.shape(source)))},
       {"out", rows_of(n, source)}});
  }

  // The prompt's spectrogram, and zeros behind it.
  Value prompt(Net& n) const {
    const SpeechSizes& c = config_;
    const Value feat =
        typed(n, "prompt_feat",
              n.input("prompt_feat", DType::f32, {n.axis("B"), c.prompt_frames(), c.mel}));
    return n("prepend_rows", "flow.prompt",
             {{"prefix_rows", c.prompt_frames()},
              {"before", feat},
              {"x", n.zeros(n.limits().dtype, {n.axis("B"), c.sound_frames(), c.mel})}});
  }

  // Frames of the tokens, each under the next ones.
  Value spoken(Net& n) const {
    const SpeechSizes& c = config_;
    const Expr each = n.axis("B");
    const Value ids = n.input("speech_tokens", DType::i64, {each, c.tokens});
    const Value rows = n("embedding", "flow.input_embedding",
                         {{"num_embeddings", c.vocabulary},
                          {"embedding_dim", c.mel},
                          {"ids", n.reshape(ids, {each * c.tokens})}});
    const Value x = n.reshape(rows, {each, c.tokens, c.mel});
    const std::string path = "flow.pre_lookahead_layer";
    constexpr double kSlope = 0.01;
    Value y = conv(n, path + ".conv1", x, {c.ahead_channels, c.ahead + 1}, 0, c.ahead);
    y = activated(n, path + ".act", y, "leaky_relu", kSlope);
    y = sum(n, path + ".sum", causal(n, path + ".conv2", y, {c.mel, 3}), x);
    return repeated(n, path + ".frames", y, c.ratio);
  }

  // The projected direction of the voice, for each frame.
  Value voice(Net& n) const {
    const SpeechSizes& c = config_;
    const std::string path = "flow.spk_embed_affine_layer";
    const Value x = n("l2_norm", path + ".norm",
                      {{"hidden_size", c.voice},
                       {"x", n.input("embedding", DType::f32, {n.axis("B"), c.voice})}});
    return n("modulate", path + ".frames",
             {{"x", n.zeros(n.limits().dtype, {n.axis("B"), c.frames(), c.mel})},
              {"shift", product(n, path, x, c.mel)}});
  }

  // silu of the embedded time [2B, C], which all gates read.
  Value time_rows(Net& n) const {
    const std::string path = kEstimator + "time_embed.";
    const Value t = n("sinusoidal_embedding", path + "time_embed",
                      {{"size", kSpeechTimeChannels},
                       {"scale", 1000.0},
                       {"t", n.input("time", DType::f32, {n.axis("B")})},
                       {"out", word(n)}});
    Value x = product(n, path + "time_mlp.0", t, config_.dim);
    x = n("activation", path + "time_mlp.1", {{"kind", "silu"}, {"x", x}});
    x = product(n, path + "time_mlp.2", x, config_.dim);
    x = n("activation", path + "silu", {{"kind", "silu"}, {"x", x}});
    const Value both = n.empty(n.limits().dtype, {batch(n), config_.dim});
    for (int64_t i = 0; i < kSpeechCopies; ++i)
      n("scaled_add", path + "copies",
        {{"scale", 1.0}, {"y", x}, {"out", n.slice(both, 0, n.axis("B") * i, n.axis("B"))}});
    return both;
  }

  // Noised frames beside their conditions, projected, plus two convolutions which tell places.
  Value embedded(Net& n) const {
    const SpeechSizes& c = config_;
    const Value all = rows_of(n, latent(n));
    const Value scaled = n.zeros(n.limits().dtype, n.shape(all));
    n("linear_combination", kEstimator + "sample",
      {{"num_terms", 1},
       {"coefficients", n.input("input_coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{all}},
       {"out", scaled}});
    const Expr rows = n.axis("B") * c.frames();
    const std::string path = kEstimator + "input_embed.";
    const Value wide = n.empty(n.limits().dtype, {rows * kSpeechCopies, 4 * c.mel});
    for (int64_t i = 0; i < kSpeechCopies; ++i)
      side_by_side(n, path + "cat", {scaled, n.slice(rows_of(n, conditions(n)), 0, rows * i, rows)},
                   n.slice(wide, 0, rows * i, rows));
    const Value x =
        n.reshape(product(n, path + "proj", wide, c.dim), {batch(n), c.frames(), c.dim});
    Value y = x;
    for (const char* name : {"conv1", "conv2"}) {
      const std::string at = path + "conv_pos_embed." + name;
      y = causal(n, at + ".0", y, {c.dim, kSpeechPositionTaps, 1, 1, kSpeechPositionGroups});
      y = activated(n, at + ".1", y, "mish");
    }
    return sum(n, path + "sum", y, x);
  }

  // norm(x) * (1 + scale) + shift, for the channels of gates from these places on.
  Value modulated(Net& n, const std::string& path, Value x, Value gates, int64_t scale,
                  int64_t shift) const {
    const int64_t dim = config_.dim;
    const Value normed =
        n("layer_norm", path + ".norm",
          {{"eps", kSpeechEps}, {"weight", Value{}}, {"bias", Value{}}, {"x", rows_of(n, x)}});
    return n("modulate", path + ".modulate",
             {{"x", n.reshape(normed, n.shape(x))},
              {"scale", n.slice(gates, 1, scale * dim, dim)},
              {"shift", n.slice(gates, 1, shift * dim, dim)}});
  }
  // x + gate * y.
  Value gated(Net& n, const std::string& path, Value x, Value y, Value gates, int64_t gate) const {
    const Value part = n("modulate", path + ".gate",
                         {{"offset", 0.0},
                          {"x", n.reshape(y, n.shape(x))},
                          {"scale", n.slice(gates, 1, gate * config_.dim, config_.dim)}});
    return sum(n, path + ".sum", x, part);
  }

  Value attention(Net& n, const std::string& path, Value x) const {
    const SpeechSizes& c = config_;
    const int64_t inner = c.heads * c.head_dim;
    const auto part = [&](const char* which) {
      return n.reshape(product(n, path + which, rows_of(n, x), inner),
                       {batch(n), c.frames(), c.heads, c.head_dim});
    };
    const Value q = part("to_q"), k = part("to_k"), v = part("to_v");
    // The first head alone turns, by pairs of neighbours.
    const auto first = [&](Value z) {
      const Dims rows = {batch(n) * c.frames(), c.heads, c.head_dim};
      return n.slice(n.reshape(z, rows), 1, 0, 1);
    };
    n("rotary_rows", path + "rope",
      {{"num_heads", 1},
       {"num_kv_heads", 1},
       {"interleaved", true},
       {"cos", turns(n, "cos", [](double turn) { return std::cos(turn); })},
       {"sin", turns(n, "sin", [](double turn) { return std::sin(turn); })},
       {"q", first(q)},
       {"k", first(k)}});
    const Value y = n("biased_attention", path + "attn",
                      {{"num_heads", c.heads},
                       {"num_kv_heads", c.heads},
                       {"head_dim", c.head_dim},
                       {"scale", 1 / std::sqrt(static_cast<double>(c.head_dim))},
                       {"q", q},
                       {"k", k},
                       {"v", v}});
    return product(n, path + "to_out.0", n.reshape(y, {batch(n) * c.frames(), inner}), c.dim);
  }
  Value turns(Net& n, const char* kind, double (*wave)(double)) const {
    return computed(n, kEstimator + "rotary_embed." + kind, DType::f32,
                    {config_.frames(), config_.head_dim},
                    [c = config_, wave] { return cosyvoice3::turns_of(c, wave); });
  }

  Value block(Net& n, int64_t number, Value x, Value time) const {
    const SpeechSizes& c = config_;
    const std::string path = fmt::format("{}transformer_blocks.{}.", kEstimator, number);
    const Value gates = product(n, path + "attn_norm.linear", time, 6 * c.dim);
    const Value y = modulated(n, path + "attn_norm", x, gates, 1, 0);
    x = gated(n, path + "attn", x, attention(n, path + "attn.", y), gates, 2);
    const Value z = modulated(n, path + "ff_norm", x, gates, 4, 3);
    const Value wide =
        n("gelu_mlp", path + "ff",
          {{"intermediate_size", c.mlp}, {"approximate", "tanh"}, {"x", rows_of(n, z)}},
          {"fc1_bias", "fc2_bias"});
    x = gated(n, path + "ff", x, wide, gates, 5);
    n.tap(fmt::format("hidden.{}", number), {n.slice(x, 0, 0, n.axis("B"))});
    return x;
  }

  void step(Net& n) const {
    const SpeechSizes& c = config_;
    n.rename({{"ff.fc1", "ff.ff.0.0"}, {"ff.fc2", "ff.ff.2"}});
    const Value time = time_rows(n);
    Value x = embedded(n);
    for (int64_t i = 0; i < c.layers; ++i) x = block(n, i, x, time);
    const std::string path = kEstimator + "norm_out";
    x = modulated(n, path, x, product(n, path + ".linear", time, 2 * c.dim), 0, 1);
    const Value predicted = product(n, kEstimator + "proj_out", rows_of(n, x), c.mel);
    const Expr rows = n.axis("B") * c.frames();
    n("linear_combination", "flow.step",
      {{"num_terms", kSpeechCopies},
       {"coefficients", n.input("coefficients", DType::f32, {kSpeechCopies + 1})},
       {"x", std::vector<Value>{n.slice(predicted, 0, 0, rows), n.slice(predicted, 0, rows, rows)}},
       {"out", rows_of(n, latent(n))}});
    n.tap("latents", {latent(n)});
  }

  // ---- the vocoder ----

  // The pitch of each frame [B, T], in float32: its phases add up all errors before them.
  Value pitch(Net& n, Value mel) const {
    const SpeechSizes& c = config_;
    const std::string path = "hift.f0_predictor.";
    Value x = mel;
    for (int64_t i = 0; i < kPitchLayers; ++i) {
      const std::string at = fmt::format("{}condnet.{}", path, 2 * i);
      constexpr int64_t kAhead = 3;
      x = i == 0 ? conv(n, at, x, {c.pitch_channels, kAhead + 1}, 0, kAhead)
                 : causal(n, at, x, {c.pitch_channels, 3});
      x = activated(n, fmt::format("{}condnet.{}", path, 2 * i + 1), x, "elu");
    }
    const Value f0 = n("linear", path + "classifier",
                       {{"out_features", 1}, {"x", rows_of(n, x)}, {"out", "f32"}}, {"bias"});
    // |x| is relu(x) + relu(-x).
    const Value below = n("scaled_add", path + "below", {{"scale", -1.0}, {"y", f0}});
    const auto positive = [&](const char* at, Value v) {
      return n("activation", path + at, {{"kind", "relu"}, {"x", v}});
    };
    const Value size =
        n("add", path + "abs", {{"a", positive("up", f0)}, {"b", positive("down", below)}});
    return n.reshape(size, {n.axis("B"), c.sound_frames()});
  }

  // Real and imaginary parts of the source's frames [B, T, bins].
  Value source(Net& n, Value mel) const {
    const SpeechSizes& c = config_;
    const int64_t samples = c.sound_frames() * c.frame_samples();
    const Value sound = n("harmonic_source", "hift.m_source",
                          {{"samples", c.frame_samples()},
                           {"sample_rate", c.sample_rate},
                           {"amplitude", c.amplitude},
                           {"noise_std", c.noise_std},
                           {"voiced_threshold", c.voiced_threshold},
                           {"f0", pitch(n, mel)},
                           {"noise", source_noise(n)},
                           {"out", "f32"}});
    n.tap("source", {n.reshape(sound, {n.axis("B"), samples, 1})});
    return n("stft", "hift.stft",
             {{"hop", c.hop}, {"window", window(n)}, {"x", sound}, {"out", word(n)}});
  }
  Value window(Net& n) const {
    return computed(n, "hift.stft_window", DType::f32, {config_.n_fft},
                    [size = config_.n_fft] { return cosyvoice3::window_of(size); });
  }

  // Pairs of dilated convolutions beside the line.
  static Value residual(Net& n, const std::string& path, Value x, int64_t taps,
                        const Ints& dilations) {
    const int64_t channels = n.shape(x)[2].value();
    for (size_t j = 0; j < dilations.size(); ++j) {
      Value y = x;
      for (int64_t number = 1; number <= 2; ++number) {
        y = by_rows(n, "snake", fmt::format("{}.activations{}.{}", path, number, j), y, {});
        y = causal(n, fmt::format("{}.convs{}.{}", path, number, j), y,
                   {channels, taps, number == 1 ? dilations[j] : 1});
      }
      x = sum(n, fmt::format("{}.sum.{}", path, j), x, y);
    }
    return x;
  }

  Value level(Net& n, int64_t number, Value x, Value waves) const {
    const SpeechSizes& c = config_;
    const auto at = static_cast<size_t>(number);
    const int64_t channels = c.base_channels >> (number + 1), kinds = std::ssize(c.taps);
    const std::string up = fmt::format("hift.ups.{}", number);
    x = activated(n, up + ".act", x, "leaky_relu", c.slope);
    x = causal(n, up, repeated(n, up + ".nearest", x, c.rates[at]), {channels, c.rate_taps[at]});
    // The first frame of the transforms is around the first sample: a reflected one stands there.
    if (number + 1 == std::ssize(c.rates))
      x = n("prepend_rows", "hift.reflection_pad",
            {{"prefix_rows", 1}, {"before", n.slice(x, 1, 1, 1)}, {"x", x}});
    const int64_t down = c.rate_behind(number);
    const Value fewer = conv(n, fmt::format("hift.source_downs.{}", number), waves,
                             {channels, down > 1 ? 2 * down : 1, 1, down}, down - 1);
    const std::string beside = fmt::format("hift.source_resblocks.{}", number);
    x = sum(n, up + ".source", x,
            residual(n, beside, fewer, c.source_taps[at], c.source_dilations[at]));
    Value mean;
    for (int64_t k = 0; k < kinds; ++k) {
      const std::string path = fmt::format("hift.resblocks.{}", number * kinds + k);
      const auto kind = static_cast<size_t>(k);
      const Value y = residual(n, path, x, c.taps[kind], c.dilations[kind]);
      Args args{{"scale", 1 / static_cast<double>(kinds)}, {"y", rows_of(n, y)}};
      if (mean) args.emplace_back("x", mean);
      mean = n("scaled_add", path + ".mean", args);
    }
    x = n.reshape(mean, n.shape(x));
    n.tap(fmt::format("vocoder_hidden.{}", number), {x});
    return x;
  }

  void end(Net& n) const {
    const SpeechSizes& c = config_;
    n.adapt([](WeightSpec& spec) {
      if (spec.name.starts_with("hift.f0_predictor.")) spec.dtype = DType::f32;
    });
    const Value mel =
        n("prepend_rows", "hift.mel",
          {{"prefix_rows", 0}, {"x", n.slice(latent(n), 1, c.prompt_frames(), c.sound_frames())}});
    const Value waves = source(n, mel);
    Value x = conv(n, "hift.conv_pre", typed(n, "hift.typed", mel),
                   {c.base_channels, c.ahead_of_sound + 1}, 0, c.ahead_of_sound);
    for (int64_t i = 0; i < std::ssize(c.rates); ++i) x = level(n, i, x, waves);
    constexpr double kSlope = 0.01;
    constexpr int64_t kTaps = 7;
    x = activated(n, "hift.act", x, "leaky_relu", kSlope);
    x = causal(n, "hift.conv_post", x, {c.n_fft + 2, kTaps});
    const Value sound = n("istft", "hift.istft",
                          {{"n_fft", c.n_fft},
                           {"hop", c.hop},
                           {"polar", true},
                           {"window", window(n)},
                           {"x", x},
                           {"out", "f32"}});
    n.output("mel", mel);
    n.output("audio", n.reshape(n("activation", "hift.clamp",
                                  {{"kind", "clamp"}, {"alpha", c.limit}, {"x", sound}}),
                                {n.axis("B"), c.sound_frames() * c.frame_samples(), 1}));
  }

  SpeechSizes config_;
};

std::unique_ptr<Model> make_cosyvoice3(const Config& config) {
  return std::make_unique<CosyVoice3>(config);
}

FK_MODEL(cosyvoice3, make_cosyvoice3, {"CosyVoice3Code2Wav"}, {"cosyvoice3"});

}  // namespace
}  // namespace fk
