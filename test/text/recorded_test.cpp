// SPDX-License-Identifier: Apache-2.0
//
// Ids, texts and conversations are equal to those of the packages tokenizers and transformers, as
// make_recorded.py recorded them. compare.py shows the lines of a chunk which differs.

#include <stdlib.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/json.hpp"
#include "core/base/sha256.hpp"
#include "core/text/chat_template.hpp"
#include "core/text/tokenizer.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

constexpr std::size_t kChunk = 100;
// Sanitizers slow each line down a hundred times: there one chunk in so many is read, and one
// template in so few.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kChunkStep = 20, kTemplateStep = 4;
#else
constexpr std::size_t kChunkStep = 1, kTemplateStep = 1;
#endif

std::filesystem::path recorded(const std::string& name) {
  return std::filesystem::path(FK_RECORDED) / name;
}

// A row as make_recorded.py hashes it.
std::string sized(const std::string& row) {
  const auto size = static_cast<uint32_t>(row.size());
  std::string result;
  for (int i = 0; i < 4; ++i) result += static_cast<char>(size >> (8 * i) & 0xFF);
  return result + row;
}

std::string as_bytes(const std::vector<int32_t>& ids) {
  std::string row;
  for (const int32_t id : ids) {
    for (int i = 0; i < 4; ++i) row += static_cast<char>(static_cast<uint32_t>(id) >> (8 * i));
  }
  return row;
}

void check_tokenizer(const std::string& name, const Json& lines, const Json& hashes) {
  INFO(name);
  const auto tokenizer = text::Tokenizer::load(recorded("tokenizers/" + name + ".json"));
  REQUIRE(hashes["ids"].size() == (lines.size() + kChunk - 1) / kChunk);
  std::string ids, texts;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i / kChunk % kChunkStep != 0) continue;
    const auto row = tokenizer.encode(lines[i].get<std::string>(), true);
    const std::string whole = tokenizer.decode(row, false);
    ids += sized(as_bytes(row));
    texts += sized(whole + tokenizer.decode(row, true));
    if (whole.find("\xEF\xBF\xBD") == std::string::npos) {
      text::Detokenizer stream(tokenizer, false);
      std::string streamed;
      for (const int32_t id : row) streamed += stream.push(id);
      REQUIRE(streamed + stream.finish() == whole);
    }
    if ((i + 1) % kChunk != 0 && i + 1 != lines.size()) continue;
    INFO("lines to " << i);
    CHECK(sha256(ids).substr(0, 8) == hashes["ids"][i / kChunk].get<std::string>());
    CHECK(sha256(texts).substr(0, 8) == hashes["texts"][i / kChunk].get<std::string>());
    ids.clear(), texts.clear();
  }
}

// A null counts as undefined here. So `"text" in message.content` is false for a null content,
// which Python refuses.
bool is_known_difference(const std::string& name, std::size_t conversation) {
  return name == "openai-gpt-oss-120b" && conversation == 10;
}

}  // namespace

TEST_CASE("tokenizers_equal_recorded_ids", "[text]") {
  const Json lines = load_json(recorded("lines.json"));
  REQUIRE(lines.size() == 10000);
  const Json hashes = load_json(recorded("hashes.json"));
  REQUIRE(hashes.size() >= 17);
  for (const auto& [name, expected] : hashes.items()) check_tokenizer(name, lines, expected);
}

TEST_CASE("chat_templates_equal_recorded_texts", "[text]") {
  ::setenv("TZ", "UTC", 1);
  text::template_clock = [] { return std::time_t{1795867200}; };  // conversations.py: RECORDED
  const Json requests = load_json(recorded("requests.json"));
  std::size_t templates = 0, refused = 0;
  for (const auto& file : std::filesystem::directory_iterator(recorded("templates"))) {
    if (file.path().extension() != ".jinja") continue;
    if (templates++ % kTemplateStep != 0) continue;
    const std::string name = file.path().stem().string();
    const auto chat = text::ChatTemplate::read(read_file(file.path()), name, Json::object());
    const Json expected = load_json(recorded("templates/" + name + ".json"));
    REQUIRE(expected.size() == requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      INFO(name << ", conversation " << i);
      const Json& asked = requests[i];
      if (is_known_difference(name, i)) {
        CHECK_NOTHROW(chat.render(asked[0], asked[1], asked[2].get<bool>(), asked[3]));
      } else if (expected[i].is_null()) {
        CHECK_THROWS_AS(chat.render(asked[0], asked[1], asked[2].get<bool>(), asked[3]), Error);
        ++refused;
      } else {
        CHECK(chat.render(asked[0], asked[1], asked[2].get<bool>(), asked[3]) ==
              expected[i].get<std::string>());
      }
    }
  }
  CHECK(templates >= 12);
  CHECK((refused > 0 || kTemplateStep > 1));
}

TEST_CASE("a_stream_of_any_ids_is_whole_characters", "[text]") {
  for (const char* name : {"llama3", "llama2", "byte_unigram", "bert", "clip"}) {
    const auto tokenizer =
        text::Tokenizer::load(recorded(std::string("tokenizers/") + name + ".json"));
    uint64_t state = 88172645463325252;
    for (int round = 0; round < 300; ++round) {
      text::Detokenizer stream(tokenizer, true);
      std::string streamed;
      std::vector<int32_t> ids;
      for (int i = 0; i < 60; ++i) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        // Half of the ids are bytes, so that characters are broken often.
        const auto range = static_cast<uint64_t>(i % 2 == 0 ? 259 : tokenizer.size());
        ids.push_back(static_cast<int32_t>(state % range));
        const std::string part = stream.push(ids.back());
        streamed += part;
        // A JSON text refuses bytes which are not UTF-8.
        CHECK_NOTHROW(Json(part).dump());
      }
      streamed += stream.finish();
      INFO(name << ", round " << round);
      CHECK_NOTHROW(Json(streamed).dump());
      if (std::string(name) == "llama3") CHECK(streamed == tokenizer.decode(ids, true));
    }
  }
}
