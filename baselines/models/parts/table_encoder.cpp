// SPDX-License-Identifier: Apache-2.0
// The model for every description of an encoder of BERT's form (`encoder` in registry/models). It
// has embeddings, and post-norm layers over a ragged batch. The output is a vector of each token,
// or of each text. A text's vector is its first token's, or the mean.
#include <algorithm>
#include <cmath>

#include "baselines/models/parts/description.hpp"
#include "baselines/models/parts/gelu.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "baselines/models/parts/text_vectors.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

namespace {

// Buckets of T5's distances, half of them for keys after the query. A quarter has one distance
// each; further ones grow with the logarithm, and the last begins at kFarthest.
constexpr int64_t kBuckets = 32, kFarthest = 128;

int64_t bucket_of(int64_t distance) {
  constexpr int64_t kSide = kBuckets / 2, kExact = kSide / 2;
  const int64_t after = distance > 0 ? kSide : 0, n = std::abs(distance);
  if (n < kExact) return after + n;
  const double share =
      std::log(static_cast<double>(n) / kExact) / std::log(static_cast<double>(kFarthest) / kExact);
  // At a bucket's first distance, the logarithms may be off by a last bit.
  const auto further = static_cast<int64_t>(share * (kSide - kExact) + 1e-9);
  return after + std::min(kExact + further, kSide - 1);
}

struct EncoderForm {
  int64_t hidden = 0, mlp = 0, layers = 0, heads = 0, vocab = 0, positions = 0;
  int64_t types = 0;      // kinds of tokens; 0: there is no table of them
  int64_t embedding = 0;  // width of the embeddings, projected where the layers have another
  double eps = 0;
  std::string approximate = "none";  // of gelu
  int64_t pad_token = -1;            // not -1: positions count from it + 1
  // Names in checkpoints, below the prefix.
  std::string prefix, embeddings, layer, projection;
  Net::Names names;
  std::vector<std::string> unread;
  bool shared_layers = false;  // all layers have the weights below `layer`
  // T5's table of scores by distance, which all layers share; 0 buckets: none.
  int64_t buckets = 0;
  std::string distances;
  // ColBERT's vector of each token: its width (0: none) and the name of its matrix.
  int64_t token_width = 0;
  std::string token_projection;
  TextVectors vectors;
};

void read_names(const Config& d, EncoderForm& f) {
  const Config n = part_of(d, "names");
  f.prefix = n.text("prefix", "");
  f.embeddings = n.text("embeddings", "embeddings");
  f.layer = n.text("layers", "encoder.layer");
  f.projection = n.text("projection", "embeddings_project");
  f.unread = n.texts("unread", {"pooler."});
  f.shared_layers = d.boolean("shared_layers", false);
  // Longer names come first: `attention.output.dense` is not `output.dense`.
  const Config modules = part_of(n, "modules");
  for (const auto& key : modules.keys()) f.names.emplace_back(key, modules.text(key));
}

void read_distances(const Config& d, const Config& config, EncoderForm& f) {
  const Config table = part_of(d, "relative_bias");
  f.distances = table.text("name", "");
  if (f.distances.empty()) return;
  f.buckets = read_described(table, "buckets", "relative_attention_num_buckets", config, kCountMax);
  if (f.buckets != kBuckets)
    config.fail_at(table.text("buckets", "relative_attention_num_buckets"),
                   std::to_string(f.buckets) + " buckets; the model has " +
                       std::to_string(kBuckets) + " whatever its configuration says");
}

void read_outputs(const Config& d, const Config& config, EncoderForm& f) {
  const Config tokens = part_of(d, "token_vectors");
  if (tokens.boolean("when", false))
    f.token_width = read_described(tokens, "width", "dim", config, kSizeMax);
  config.has("dim");
  f.token_projection = tokens.text("name", "linear");
  f.vectors = read_text_vectors(config);
  if (f.token_width > 0 && f.vectors.pooling != TextVectors::Pooling::none)
    config.fail_at("pooling", "the model has a vector of each token");
}

EncoderForm read_encoder_form(const Config& description, const Config& config) {
  const Config d = resolved(description, config);
  const Config sizes = part_of(d, "sizes");
  const auto size = [&](const char* name, const char* usual, int64_t most) {
    return read_described(sizes, name, usual, config, most);
  };
  EncoderForm f;
  f.hidden = size("hidden", "hidden_size", kSizeMax);
  f.mlp = size("mlp", "intermediate_size", kSizeMax);
  f.layers = size("layers", "num_hidden_layers", kCountMax);
  f.heads = size("heads", "num_attention_heads", kCountMax);
  f.vocab = size("vocab", "vocab_size", kSizeMax);
  f.positions = size("positions", "max_position_embeddings", kSizeMax);
  f.types = sizes.boolean("types", true) ? read_size(config, "type_vocab_size") : 0;
  f.embedding = sizes.has("embedding") ? size("embedding", "", kSizeMax) : f.hidden;
  f.eps = d.is_number("eps") ? d.number("eps") : config.number(d.text("eps", "layer_norm_eps"));
  f.approximate = read_gelu(config, d.text("activation", "hidden_act"));
  if (f.hidden % f.heads != 0)
    config.fail(std::to_string(f.heads) + " heads do not divide " + std::to_string(f.hidden) +
                " channels");
  if (d.boolean("positions_after_pad", false)) f.pad_token = read_pad_token(config, f.positions);
  read_names(d, f);
  read_distances(d, config, f);
  read_outputs(d, config, f);
  need_only(d, config);
  d.refuse_unread(d, {});
  return f;
}

class TableEncoder final : public Model {
 public:
  explicit TableEncoder(EncoderForm form) : f_(std::move(form)) {}

  std::unique_ptr<Engine> engine() const override {
    EncodeOptions options = encode_options(f_.vectors);
    options.vocabulary = f_.vocab;
    options.positions = f_.positions - f_.pad_token - 1;
    if (f_.token_width > 0) options.output = "embeddings";
    options.position_offset = f_.pad_token + 1;
    options.pad_token = f_.pad_token;
    return encode_engine(std::move(options));
  }

  void forward(Net& n, const std::string&) const override {
    const Expr tokens = n.axis("T");
    const Value x = record(n, tokens);
    output_vectors(n, x, f_.vectors);
    if (f_.token_width == 0) return;
    const Value y = n("linear", f_.token_projection, {{"out_features", f_.token_width}, {"x", x}});
    n.output("embeddings", n("l2_norm", "normalize", {{"eps", 1e-12}, {"x", y}}));
  }

  std::vector<Unread> unread() const override {
    std::vector<Unread> list;
    for (const auto& name : f_.unread)
      list.push_back({f_.prefix + name, name == "pooler." ? "a pooler" : "a head"});
    return list;
  }

 private:
  int64_t width() const { return f_.hidden / f_.heads; }

  // The rows of distances -kFarthest to kFarthest, [distances, heads].
  WeightSpec distances() const {
    const std::string name = f_.prefix + f_.distances;
    WeightSpec spec;
    spec.name = name + ".distance_bias";
    spec.shape = {2 * kFarthest + 1, f_.heads};
    spec.stddev = 1;
    spec.parts.emplace_back();
    for (int64_t distance = -kFarthest; distance <= kFarthest; ++distance) {
      spec.parts[0].push_back(name + ".weight");
      spec.views.push_back({{f_.buckets, f_.heads}, 0, bucket_of(distance), 1, {0, 1}});
    }
    return spec;
  }

  // Embeddings and layers, with the taps hidden.0 (after the embeddings) to hidden.N.
  Value record(Net& n, const Expr& tokens) const {
    n.rename(f_.names);
    const auto input = [&](const char* name) { return n.input(name, DType::i64, {tokens}); };
    n.common({{"eps", f_.eps},
              {"num_heads", f_.heads},
              {"head_dim", width()},
              {"scale", 1 / std::sqrt(static_cast<double>(width()))},
              {"intermediate_size", f_.mlp},
              {"approximate", f_.approximate},
              {"cu_seqlens", n.input("cu_seqlens", DType::i32, {n.axis("B") + 1})},
              {"max_seqlen", Expr::min(tokens, n.limits().max_context)}});
    const std::string types = f_.prefix + f_.embeddings + ".token_type_embeddings.weight";
    if (f_.types == 0)
      n.adapt([types, count = f_.embedding](WeightSpec& spec) {
        if (spec.name != types) return;
        spec.compute = [count] { return std::vector<double>(static_cast<size_t>(count), 0.0); };
      });
    Value x = n("bert_embedding", f_.prefix + f_.embeddings,
                {{"vocab_size", f_.vocab},
                 {"hidden_size", f_.embedding},
                 {"max_position", f_.positions},
                 {"type_vocab_size", std::max<int64_t>(f_.types, 1)},
                 {"ids", input("ids")},
                 {"positions", input("positions")},
                 {"types", input("types")}});
    if (f_.embedding != f_.hidden)
      x = n("linear", f_.prefix + f_.projection, {{"x", x}, {"out_features", f_.hidden}}, {"bias"});
    n.tap("hidden.0", {x});
    const Value bias = f_.buckets > 0 ? n.weight(distances()) : Value{};
    for (int64_t i = 0; i < f_.layers; ++i) {
      const std::string path = f_.prefix + f_.layer + "." + std::to_string(i);
      if (f_.shared_layers) n.rename({{path, f_.prefix + f_.layer}});
      x = n("encoder_layer", path, {{"x", x}, {"distance_bias", bias}});
      n.tap("hidden." + std::to_string(i + 1), {x});
    }
    return x;
  }

  const EncoderForm f_;
};

std::unique_ptr<Model> make_table_encoder(const Config& description, const Config& config) {
  return std::make_unique<TableEncoder>(read_encoder_form(description, config));
}

FK_MODEL_FORM(encoder, make_table_encoder);

}  // namespace

}  // namespace fk::parts
