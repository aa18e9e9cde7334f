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
