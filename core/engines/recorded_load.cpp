// SPDX-License-Identifier: Apache-2.0
#include "core/engines/recorded_load.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/io.hpp"

namespace fk {

namespace {

RecordedRequest read_line(std::string_view line, const std::string& where) {
  auto r = from_fields<RecordedRequest>(parse_json(line, where), where, Reading{});
  const auto bad = [](int64_t token) { return token < 0; };
  if (r.prompt.empty()) fail(where, "`prompt` is empty");
  if (std::ranges::any_of(r.prompt, bad) || std::ranges::any_of(r.answer, bad))
    fail(where, "a token is negative");
  if (!(r.at_s >= 0)) fail(where, "`at_s` is no time");
  const Sampling& s = r.sampling;
  if (!(s.temperature >= 0) || s.top_k < 0 || !(s.top_p > 0 && s.top_p <= 1))
    fail(where, "`temperature`, `top_k` or `top_p` is impossible");
  return r;
}

}  // namespace

std::shared_ptr<const Load> RecordedLoad::read(const WorkloadKeys& keys, const LoadSize& size) {
  const Yaml name = keys.yaml().at("recorded");
  for (const char* other : {"lengths", "prompt", "output", "sampling"})
    if (keys.has(other)) name.fail("the recording has `" + std::string(other) + "` already");
  const auto file = std::filesystem::path(name.file()).parent_path() / name.text();
  constexpr std::size_t kBytesMost = std::size_t{64} << 30;
  const std::string text = read_file(file, kBytesMost);
  auto load = std::make_shared<RecordedLoad>();
  auto& all = load->requests_;
  size_t number = 0;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string where = file.string() + ":" + std::to_string(++number);
    RecordedRequest r = read_line(std::string_view(text).substr(begin, end - begin), where);
    const bool answered = !r.answer.empty() || r.end == kEndOfEmbedding;
    if (answered && static_cast<int64_t>(r.prompt.size() + r.answer.size()) <= size.context)
      all.push_back(std::move(r));
    else
      ++load->left_out_;
  }
  if (all.empty())
    name.fail("none of its " + std::to_string(number) +
              " requests has an answer and fits the context of " + std::to_string(size.context) +
              " tokens");
  std::ranges::stable_sort(all, {}, &RecordedRequest::at_s);
  if (size.requests < load->requests()) all.resize(static_cast<size_t>(size.requests));
  return load;
}

Request RecordedLoad::request(const RequestForm& form, int64_t index, uint64_t) const {
  const RecordedRequest& recorded = requests_[static_cast<size_t>(index)];
  Request out;
  out.tokens = recorded.prompt;
  for (const int64_t token : out.tokens)
    if (token >= form.vocabulary)
      fail("the recording", "token " + std::to_string(token) +
                                " is outside of the model's vocabulary of " +
                                std::to_string(form.vocabulary));
  out.new_tokens = static_cast<int64_t>(recorded.answer.size());
  out.sampling.temperature = recorded.sampling.temperature;
  out.sampling.top_k = recorded.sampling.top_k;
  out.sampling.top_p = recorded.sampling.top_p;
  out.sampling.seed = recorded.sampling.seed;
  return out;
}

double RecordedLoad::arrives_s(int64_t index) const {
  return requests_[static_cast<size_t>(index)].at_s - requests_.front().at_s;
}

const std::vector<int64_t>* RecordedLoad::answer(int64_t index) const {
  const RecordedRequest& recorded = requests_[static_cast<size_t>(index)];
  return recorded.answer.empty() || recorded.sampling.on_host() ? nullptr : &recorded.answer;
}

int64_t RecordedLoad::prompt_tokens() const {
  int64_t sum = 0;
  for (const auto& r : requests_) sum += static_cast<int64_t>(r.prompt.size());
  return sum;
}

int64_t RecordedLoad::output_tokens() const {
  int64_t sum = 0;
  for (const auto& r : requests_) sum += static_cast<int64_t>(r.answer.size());
  return sum;
}

int64_t RecordedLoad::longest() const {
  size_t longest = 0;
  for (const auto& r : requests_) longest = std::max(longest, r.prompt.size() + r.answer.size());
  return static_cast<int64_t>(longest);
}

}  // namespace fk
