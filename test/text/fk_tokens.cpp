// SPDX-License-Identifier: Apache-2.0
//
// fk_tokens encode FILE [LINES]: the ids of each line of standard input, in a line with spaces.
// fk_tokens decode FILE: the text of each line of ids, as JSON text.
// fk_tokens render FILE: the text of each line of standard input, a JSON list with messages, tools,
// add_generation_prompt and variables. FILE is a template. An error is null.
// fk_tokens speed FILE TEXT: megabytes a second of one core, in user time.
// FILE is a tokenizer.json. A line of text is a JSON text, so it may have any characters.

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/text/chat_template.hpp"
#include "core/text/tokenizer.hpp"

namespace {

double user_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) * 1e-6;
}

// The best of seven rounds, as other work on the machine only slows a round down.
void print_speed(const fk::text::Tokenizer& tokenizer, const std::string& path) {
  const std::string text = fk::read_file(path);
  std::vector<std::string> parts;  // documents of 64 KiB, cut at lines
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(text.find('\n', begin + 65536), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  double best = 1e9;
  std::size_t ids = 0;
  for (int round = 0; round < 7; ++round) {
    const double start = user_seconds();
    ids = 0;
    for (const std::string& part : parts) ids += tokenizer.encode(part, false).size();
    best = std::min(best, user_seconds() - start);
  }
  fmt::print("{:.1f} MB/s, {} bytes, {} ids\n", static_cast<double>(text.size()) / best / 1e6,
             text.size(), ids);
}

void render_lines(const std::string& path) {
  const auto chat = fk::text::ChatTemplate::read(fk::read_file(path), path, fk::Json::object());
  for (std::string line; std::getline(std::cin, line);) {
    const auto given = fk::Json::parse(line);
    fk::Json result;
    try {
      result = chat.render(given[0], given[1], given[2].get<bool>(), given[3]);
    } catch (const fk::Error& error) {
      fmt::print(stderr, "{}\n", error.what());
    }
    fmt::print("{}\n", result.dump());
  }
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) {
    fmt::print(stderr, "fk_tokens encode|decode|render FILE, or fk_tokens speed FILE TEXT\n");
    return 2;
  }
  if (arguments[0] == "render") {
    render_lines(arguments[1]);
    return 0;
  }
  const double start = user_seconds();
  const auto tokenizer = fk::text::Tokenizer::load(arguments[1]);
  if (arguments[0] == "speed" && arguments.size() == 3) {
    fmt::print("read in {:.2f} s\n", user_seconds() - start);
    print_speed(tokenizer, arguments[2]);
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) {
    if (arguments[0] == "encode") {
      const auto text = nlohmann::json::parse(line).get<std::string>();
      fmt::print("{}\n", fmt::join(tokenizer.encode(text, true), " "));
    } else {
      std::istringstream words(line);
      std::vector<int32_t> ids;
      for (int32_t id; words >> id;) ids.push_back(id);
      fk::text::Detokenizer stream(tokenizer, false);
      std::string streamed;
      for (const int32_t id : ids) streamed += stream.push(id);
      streamed += stream.finish();
      nlohmann::json result = {tokenizer.decode(ids, false), tokenizer.decode(ids, true), streamed};
      fmt::print("{}\n", result.dump());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const fk::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
