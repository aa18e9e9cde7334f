// SPDX-License-Identifier: Apache-2.0
// If this fails, a description of a decoder is read as another model than the one that it says.
#include "baselines/models/parts/decoder_form.hpp"

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "test/catch.hpp"

namespace {

using fk::parts::DecoderForm;

fk::Config form_json(const std::string& text, const char* name) {
  return {fk::parse_json(text, name), name};
}

DecoderForm read_form(const std::string& description, const std::string& more = "") {
  const std::string config = R"({"hidden_size": 64, "intermediate_size": 96, "vocab_size": 100,
    "num_hidden_layers": 6, "num_attention_heads": 4, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": false, "rope_theta": 10000)" +
                             (more.empty() ? "" : ", " + more) + "}";
  return fk::parts::read_decoder_form(form_json(description, "form"), form_json(config, "config"));
}

const std::string kPlainForm =
    R"("norms": {"before_attention": "input_layernorm", "before_mlp": "post_attention_layernorm"})";

}  // namespace

TEST_CASE("a_description_without_differences_is_a_plain_decoder", "[models]") {
  CHECK(read_form("{" + kPlainForm + "}").is_plain());
  CHECK_FALSE(read_form("{" + kPlainForm + R"(, "parallel": true})").is_plain());
  CHECK_FALSE(read_form("{" + kPlainForm + R"(, "rope": {"pairs": "neighbours"}})").is_plain());
  CHECK_FALSE(read_form("{" + kPlainForm + R"(, "scale": {"residual": 0.5}})").is_plain());
  CHECK_FALSE(read_form("{" + kPlainForm + R"(, "cap": {"logits": 30}})").is_plain());
}

TEST_CASE("a_description_takes_values_and_branches_from_the_configuration", "[models]") {
  const std::string form = "{" + kPlainForm + R"(,
    "bias": {"qkv": "config.attention_bias"},
    "parallel": {"if": "side", "is": "by side", "then": true, "else": false}})";
  CHECK(read_form(form, R"("attention_bias": true)").base.attention_bias);
  CHECK_FALSE(read_form(form, R"("attention_bias": false)").base.attention_bias);
  CHECK(read_form(form, R"("side": "by side")").parallel);
  CHECK_FALSE(read_form(form, R"("side": "behind")").parallel);
}

TEST_CASE("windows_and_rotation_are_given_by_layer", "[models]") {
  const auto form = read_form("{" + kPlainForm + R"(,
    "window": {"size": "sliding_window", "full_every": 3},
    "rope": {"only_sliding": true}})",
                              R"("sliding_window": 16)");
  CHECK(form.base.windows == std::vector<int64_t>{16, 16, 0, 16, 16, 0});
  CHECK(form.rope_of == std::vector<int64_t>{0, 0, -1, 0, 0, -1});
  const auto none = read_form("{" + kPlainForm + R"(, "rope": {"layers": [1, 0, 1, 0, 1, 1]}})");
  CHECK(none.rope_of == std::vector<int64_t>{0, -1, 0, -1, 0, 0});
}

TEST_CASE("windows_follow_a_list_of_patterns", "[models]") {
  const auto windows = [](const std::string& patterns) {
    return read_form("{" + kPlainForm + R"(, "window": {"size": "w", "patterns": "kinds"}})",
                     R"("w": 8, "kinds": )" + patterns)
        .base.windows;
  };
  CHECK(windows(R"([[["global", "local"], 2], [["local"], 2]])") ==
        std::vector<int64_t>{0, 8, 0, 8, 8, 8});
  const auto why = [&](const std::string& patterns) {
    return message_of<fk::Error>([&] { windows(patterns); });
  };
  CHECK_THAT(why(R"([[["global", "near"], 3]])"), ContainsSubstring("\"near\" is not a kind"));
  CHECK_THAT(why(R"([[["global"], 5]])"), ContainsSubstring("5 layers, not of 6"));
  CHECK_THAT(why(R"([["global", 6]])"), ContainsSubstring("(kinds of layers, times)"));
}

TEST_CASE("a_description_reads_keys_of_objects", "[models]") {
  const std::string form = "{" + kPlainForm + R"(,
    "scale": {"attention": "config.inner.scale"}, "only": {"inner.kind": "plain"}})";
  CHECK(read_form(form, R"("inner": {"scale": 0.25, "kind": "plain"})").attention_scale == 0.25);
  CHECK(read_form(form).attention_scale == 0.25);  // without the key: 1/sqrt(16)
  CHECK_THAT(message_of<fk::Error>([&] { read_form(form, R"("inner": {"kind": "other"})"); }),
             ContainsSubstring("only \"plain\" is supported"));
}

TEST_CASE("layers_with_latents_are_plain_where_all_norms_have_one_eps", "[models]") {
  const auto is_plain = [](const std::string& more) {
    return read_form(
               "{" + kPlainForm + R"(, "sizes": {"head_dim": 4}, "latent": true)" + more + "}",
               R"("kv_lora_rank": 8, "qk_nope_head_dim": 4, "v_head_dim": 4)")
        .is_plain();
  };
  CHECK(is_plain(""));
  CHECK_FALSE(is_plain(R"(, "eps": 1e-5)"));
}

TEST_CASE("a_mistake_in_a_description_is_named", "[models]") {
  const auto why = [](const std::string& text, const std::string& more = "") {
    return message_of<fk::Error>([&] { read_form("{" + kPlainForm + ", " + text + "}", more); });
  };
  CHECK_THAT(why(R"("paralel": true)"), ContainsSubstring("did you mean `parallel`"));
  CHECK_THAT(why(R"("norm": "rsm")"), ContainsSubstring("did you mean `rms`"));
  CHECK_THAT(why(R"("names": {"oo": "x"})"), ContainsSubstring("oo"));
  CHECK_THAT(why(R"("only": {"alibi": false})", R"("alibi": true)"),
             ContainsSubstring("only false is supported"));
  CHECK_THAT(why(R"("rope": {"layers": [1]})"), ContainsSubstring("1 of 6 layers"));
}

TEST_CASE("layers_with_experts_are_chosen_by_rules_or_by_a_list", "[models]") {
  const auto form = [](const std::string& moe, const std::string& more = "") {
    return read_form(
        "{" + kPlainForm + R"(, "moe": {"experts": 8, "chosen": 2, "width": 16)" + moe + "}}",
        more);
  };
  const auto layers = [&](const std::string& rules, const std::string& more = "") {
    return form(R"(, "layers": )" + rules, more).mixture.layers;
  };
  CHECK(form("").is_plain());
  CHECK(layers(R"({"from": 2, "last": 4})") == std::vector<bool>{0, 0, 1, 1, 1, 0});
  CHECK(layers(R"({"every": 2, "dense": [3]})") == std::vector<bool>{0, 1, 0, 0, 0, 1});
  const std::string types = R"("kinds": ["dense", "sparse", "sparse", "dense", "dense", "sparse"])";
  CHECK(layers(R"({"from": 5, "types": "config.kinds"})", types) ==
        std::vector<bool>{0, 1, 1, 0, 0, 1});
  CHECK_FALSE(form(R"(, "layers": {"from": 1})").is_plain());
  CHECK_FALSE(form(R"(, "score": "sigmoid")").is_plain());
  CHECK_FALSE(form(R"(, "renormalize": false)").is_plain());
  CHECK_FALSE(form(R"(, "shared": {"width": "hidden_size"})").is_plain());
}

TEST_CASE("a_size_has_the_first_of_its_names_that_is_there", "[models]") {
  const std::string moe =
      "{" + kPlainForm + R"(, "moe": {"experts": ["new", "old"], "chosen": 2, "width": 16}})";
  CHECK(read_form(moe, R"("old": 4)").mixture.experts == 4);
  CHECK(read_form(moe, R"("new": 6, "old": 4)").mixture.experts == 6);
  CHECK_THAT(message_of<fk::Error>([&] { read_form(moe); }), ContainsSubstring("`old`"));
}

TEST_CASE("experts_that_cannot_be_chosen_are_refused", "[models]") {
  const auto why = [](const std::string& moe, const std::string& more = "") {
    return message_of<fk::Error>(
        [&] { read_form("{" + kPlainForm + R"(, "moe": {"width": 16, )" + moe + "}}", more); });
  };
  CHECK_THAT(why(R"("experts": 4, "chosen": 5)"), ContainsSubstring("5 of 4 experts"));
  CHECK_THAT(why(R"("experts": 6, "chosen": 2, "groups": 4)"), ContainsSubstring("4 groups"));
  CHECK_THAT(why(R"("experts": 6, "chosen": 3, "groups": 3, "kept_groups": 1)"),
             ContainsSubstring("from 1 of 3 groups"));
  CHECK_THAT(why(R"("experts": 4, "chosen": 2, "layers": {"types": ["dense"]})"),
             ContainsSubstring("1 kinds of MLP for 6 layers"));
  CHECK_THAT(why(R"("experts": 4, "chosen": 2, "layers": {"types": "config.kinds"})",
                 R"("kinds": ["dense", "spars", "dense", "dense", "dense", "dense"])"),
             ContainsSubstring("did you mean `sparse`"));
}

TEST_CASE("bases_of_rotation_are_shared_by_layers_with_the_same", "[models]") {
  const auto form =
      read_form("{" + kPlainForm + R"(, "rope": {"thetas": [10, 0, 20, 10, 20, 0]}})");
  CHECK(form.ropes.size() == 2);
  CHECK(form.rope_of == std::vector<int64_t>{0, -1, 1, 0, 1, -1});
  CHECK(form.ropes[1].theta == 20);
}

TEST_CASE("vectors_of_texts_are_asked_for_by_keys_of_a_configuration", "[models]") {
  const auto read = [](const std::string& text) {
    return fk::parts::read_text_vectors(form_json(text, "config"));
  };
  using Pooling = fk::parts::TextVectors::Pooling;
  CHECK(read("{}").pooling == Pooling::none);
  CHECK(read(R"({"pooling": "mean", "normalize": true})").normalize);
  CHECK_THAT(message_of<fk::Error>([&] { read(R"({"pooling": "men"})"); }),
             ContainsSubstring("did you mean `mean`"));
  CHECK_THAT(message_of<fk::Error>([&] { read(R"({"normalize": true})"); }),
             ContainsSubstring("one vector for each text"));
}
