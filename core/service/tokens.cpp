// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/service/http.hpp"

namespace fk {

Tokens load_tokens(const std::filesystem::path& file) {
  constexpr size_t kShortest = 16, kFileMost = size_t{1} << 20;
  const std::string text = read_file(file, kFileMost);
  struct stat facts {};
  if (::stat(file.c_str(), &facts) == 0 && (facts.st_mode & 0077) != 0)
    fail(file.string(), "other users can read it", "chmod 600 " + file.string());
  Tokens out;
  int number = 0;
  for (const auto& line : split(text, '\n')) {
    const std::string where = file.string() + ":" + std::to_string(++number);
    const std::string words(trim(line));
    if (words.empty() || words[0] == '#') continue;
    const size_t blank = words.find_first_of(" \t");
    const std::string name = words.substr(0, blank);
    const std::string token(blank == words.npos ? "" : trim(words.substr(blank)));
    if (token.size() < kShortest || token.find_first_of(" \t") != token.npos)
      fail(where, "is not `NAME TOKEN`",
           "a token has at least " + std::to_string(kShortest) + " characters and no blank");
    for (const auto& [hash, other] : out)
      if (other == name) fail(where, "the name `" + excerpt(name) + "` comes twice");
    if (!out.emplace(sha256(token), name).second) fail(where, "this token comes twice");
  }
  if (out.empty()) fail(file.string(), "has no token", "a line `NAME TOKEN` for each client");
  return out;
}

}  // namespace fk
