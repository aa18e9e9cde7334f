// SPDX-License-Identifier: Apache-2.0
//
// Mutated and random bytes go through the readers of YAML, JSON, safetensors, tokenizers and chat
// templates. Each call returns or throws Error. Anything else is a hole that a downloaded
// checkpoint could use. FK_FUZZ_SEED and FK_FUZZ_SECONDS (for each reader, default 1) repeat or
// extend a run.

#include <chrono>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/json.hpp"
#include "core/base/yaml.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/safetensors.hpp"
#include "core/text/chat_template.hpp"
#include "core/text/tokenizer.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

uint64_t from_environment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

std::size_t place(Random& random, std::size_t size) {
  return static_cast<std::size_t>(random.integer(0, static_cast<int64_t>(size) + 1));
}

std::string random_bytes(Random& random, std::size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random.next());
  return text;
}

// One to eight edits; tokens of the grammars get deeper than bytes do.
std::string mutated(std::string text, Random& random) {
  static const std::vector<std::string> kTokens = {"{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   ":",
                                                   ": ",
                                                   ",",
                                                   "\"",
                                                   "'",
                                                   "- ",
                                                   "? ",
                                                   "\n",
                                                   "\n  ",
                                                   "&a ",
                                                   "*a",
                                                   "!!x ",
                                                   "|\n",
                                                   ">-\n",
                                                   "---\n",
                                                   "...\n",
                                                   "%YAML 1.2\n",
                                                   "<<: ",
                                                   "\\u0000",
                                                   "\\ud800",
                                                   "null",
                                                   "1e999",
                                                   "-9223372036854775809",
                                                   "18446744073709551615",
                                                   "0x",
                                                   ".nan",
                                                   "\t",
                                                   "#",
                                                   "\xEF\xBB\xBF",
                                                   "\xFF\xFE",
                                                   "true",
                                                   "@",
                                                   "`",
                                                   "\"data_offsets\":[0,0]",
                                                   "\"__metadata__\":{}"};
  const int64_t edits = random.integer(1, 9);
  for (int64_t i = 0; i < edits; ++i) {
    const std::size_t at = place(random, text.size());
    const std::size_t length = std::min(place(random, 20), text.size() - at);
    switch (random.integer(0, 6)) {
      case 0:
        text.insert(at, kTokens[place(random, kTokens.size() - 1)]);
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(place(random, text.size()), text.substr(at, length));
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(random.next());
        break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random.integer(0, 8)));
        break;
      default: {
        const std::string& token = kTokens[place(random, kTokens.size() - 1)];
        const auto count = static_cast<std::size_t>(random.integer(1, 200));
        std::string many;
        for (std::size_t k = 0; k < count; ++k) many += token;
        text.insert(at, many);
      }
    }
  }
  return text;
}

void fuzz(const std::string& valid, const std::function<void(const std::string&)>& read) {
  const uint64_t seed = from_environment("FK_FUZZ_SEED", 1);
  const auto seconds = std::chrono::seconds(from_environment("FK_FUZZ_SECONDS", 1));
  Random random(seed_of(valid, seed));
  const auto end = std::chrono::steady_clock::now() + seconds;
  int64_t count = 0, refused = 0;
  std::string text;
  INFO("FK_FUZZ_SEED=" << seed);
  CHECK_NOTHROW(read(valid));
  while (std::chrono::steady_clock::now() < end) {
    const bool noise = random.integer(0, 10) == 0;
    text = noise ? random_bytes(random, place(random, 200)) : mutated(valid, random);
    ++count;
    try {
      read(text);
    } catch (const Error&) {
      ++refused;
    } catch (const std::exception& error) {
      FAIL("case " << count << " threw " << error.what());
    }
  }
  CHECK(count > 0);
  CHECK(refused > 0);
}

// Every reader function on every node.
void visit(const Yaml& node) {
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { node.integer(); }, [&] { node.number(); }, [&] { node.boolean(); },
           [&] { node.text(); }, [&] { node.at("nmae"); }, [&] { node.only({"name"}); }}) {
    try {
      call();
    } catch (const Error&) {
    }
  }
  if (node.is_list()) {
    for (const Yaml& item : node.items()) visit(item);
  }
  if (node.is_map()) {
    for (const auto& [key, value] : node.entries()) visit(value);
  }
}

}  // namespace

TEST_CASE("yaml_mutated_never_crashes", "[fuzz]") {
  fuzz(
      "name: rms_norm\nrevision: 3\ninit:\n  - {name: eps, type: double, default: 1.0e-6}\n"
      "forward:\n  - name: x\n    shape: [T, C]\n    text: |\n      two\n      lines\n"
      "  - name: \"y\"\n    alias: 'x'\nflags: [true, false, ~, 0x10, .inf]\n",
      [](const std::string& text) { visit(Yaml::parse(text, "fuzz.yaml")); });
}

TEST_CASE("json_mutated_never_crashes", "[fuzz]") {
  fuzz(
      "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 4096, \"eps\": 1e-05,\n"
      " \"rope\": {\"type\": \"yarn\", \"factor\": 4.0, \"list\": [1, 2, [3]]}, \"tie\": false,"
      " \"text\": \"\\u00e4\\n\", \"none\": null}",
      [](const std::string& text) {
        const Config config(parse_json(text, "fuzz.json"), "fuzz.json");
        config.integer("hidden_size", 1);
        config.with(config.json()).integers("ids", {1});
      });
}

TEST_CASE("safetensors_mutated_never_crashes", "[fuzz]") {
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
      "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]}}  ";
  const auto image = [](const std::string& text, uint64_t length) {
    std::string result;
    for (int i = 0; i < 8; ++i) result += static_cast<char>(length >> (8 * i) & 0xFF);
    return result + text;
  };
  const auto read = [](const std::string& text) {
    // A copy of the exact size, so that AddressSanitizer sees a read past its end.
    const std::vector<std::byte> bytes(
        reinterpret_cast<const std::byte*>(text.data()),
        reinterpret_cast<const std::byte*>(text.data()) + text.size());
    const SafeTensors file = SafeTensors::parse(bytes, "fuzz.safetensors");
    double sum = 0;
    for (const std::string& name : file.names()) {
      for (const double value : file.at(name).load().values()) sum += value;
    }
    static_cast<void>(sum);
  };
  const std::string data(22, 'x');
  SECTION("whole image") { fuzz(image(header + data, header.size()), read); }
  SECTION("header with the right length") {
    fuzz(header, [&](const std::string& text) { read(image(text + data, text.size())); });
  }
}

#if defined(FK_TOKENIZERS)
TEST_CASE("tokenizer_mutated_never_crashes", "[fuzz]") {
  const std::string words =
      R"("vocab":{"a":0,"b":1,"ab":2,"<unk>":3,"<0x0A>":4,"\u0120":5,"\u0120ab":6},)"
      R"("merges":[["a","b"],["\u0120","ab"]])";
  const std::string end =
      R"(,"added_tokens":[{"id":7,"content":"<s>","special":true,"lstrip":true,"rstrip":true},)"
      R"({"id":8,"content":"b b","single_word":true,"normalized":true}],)"
      R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},)"
      R"({"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"id":"<s>","ids":[7]}}})";
  const auto read = [](const std::string& json) {
    const auto tokenizer = text::Tokenizer::read(json, "fuzz.json");
    for (const char* given :
         {"", "ab a\tb b<s> \xF0\x9F\x98\x80!", "\xFF\xE4\xBD 12 \xE4\xBD\xA0"}) {
      const auto ids = tokenizer.encode(given, true);
      text::Detokenizer stream(tokenizer);
      for (const int32_t id : ids) stream.push(id);
      stream.finish();
      tokenizer.decode(ids, false);
    }
  };
  SECTION("byte-level") {
    fuzz(R"({"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[)"
         R"({"type":"Split","pattern":{"Regex":"\\p{L}+|\\s+(?!\\S)|[^\\s\\p{L}]{1,3}"},)"
         R"("behavior":"MergedWithNext","invert":false},{"type":"ByteLevel"}]},)"
         R"("model":{"type":"BPE","ignore_merges":true,)" +
             words + R"(},"decoder":{"type":"ByteLevel"})" + end + "}",
         read);
  }
  SECTION("sentencepiece") {
    fuzz(R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},)"
         R"({"type":"Replace","pattern":{"String":" "},"content":"_"},{"type":"Strip"}]},)"
         R"("pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"first"},)"
         R"("model":{"type":"BPE","byte_fallback":true,"fuse_unk":true,"unk_token":"<unk>",)" +
             words +
             R"(},"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},)"
             R"({"type":"Fuse"},{"type":"Strip","content":" ","start":1}]})" +
             end + "}",
         read);
  }
  SECTION("unigram") {
    fuzz(R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":"CAAAAAABAAAAAAAAYQA="},)"
         R"("model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1.5],["ab",-2e1],)"
         R"(["b",-3]]},"decoder":{"type":"Metaspace"})" +
             end + "}",
         read);
  }
  SECTION("words") {
    fuzz(R"({"normalizer":{"type":"BertNormalizer","lowercase":true},"pre_tokenizer":)"
         R"({"type":"BertPreTokenizer"},"model":{"type":"WordPiece","unk_token":"<unk>",)"
         R"("vocab":{"<unk>":0,"a":1,"##b":2}},"decoder":{"type":"WordPiece"})" +
             end + "}",
         read);
  }
}
#endif

TEST_CASE("chat_template_mutated_never_crashes", "[fuzz]") {
  const Json messages = parse_json(
      R"([{"role":"user","content":"a {{ b }}"},{"role":"assistant","content":null}])", "fuzz");
  fuzz(
      "{%- macro m(a, b=1) -%}{{ a ~ b }}{%- endmacro -%}\n"
      "{% for x in messages %}{% if x.role == 'user' and not loop.last %}\n"
      "{{ m(x['content'] | trim, 2) + \"\\n\" }}{% elif x is defined %}{{ x | tojson(indent=2) }}\n"
      "{% else %}{{ raise_exception('no') }}{% endif %}{% endfor %}\n"
      "{% set ns = namespace(n=0) %}{% set ns.n = ns.n + messages[0].content.split(' ')|length %}\n"
      "{{ messages[1:] | selectattr('role', 'equalto', 'user') | list }}{# note #}{{ -1 ** 2 }}",
      [&](const std::string& jinja) {
        text::ChatTemplate::read(jinja, "fuzz.jinja", Json::object())
            .render(messages, nullptr, true, nullptr);
      });
}

TEST_CASE("deep_and_long_templates_are_refused", "[fuzz]") {
  const auto many = [](const std::string& part, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += part;
    return text;
  };
  // Each of these overflows the stack of a reader without limits.
  for (const std::string& jinja :
       {"{{ " + many("(", 20000), "{{ " + many("[\n", 20000), "{{ " + many("not ", 20000) + "a }}",
        "{{ 1" + many("\n+1", 20000) + " }}", "{{ a" + many(".b", 20000) + " }}",
        many("{% if a %}", 20000), "{# " + many("x ", 100000) + "#}",
        many(" ", 100000) + "{%- if a %}", "{{ " + many("a", 100000) + " }}",
        "{{ a" + many("|trim", 20000) + " }}",
        std::string("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}")}) {
    INFO(jinja.substr(0, 40));
    CHECK_THROWS_AS(text::render(jinja, Json::array(), nullptr, true, nullptr), Error);
  }
}
