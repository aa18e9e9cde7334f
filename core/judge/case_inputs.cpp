// SPDX-License-Identifier: Apache-2.0
// Makes the contents of a case, each a set of inputs, and the oracle's answers to them. Contents
// have a family (a kind of inputs, docs/numerics.md), and belong to a version (a set of weights). A
// third of the contents is kept for calls that the race times on unseen inputs.
#include <unistd.h>

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/judge/oracle_server.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

constexpr int kDeviceContents = 24;  // most contents of a case on a device
constexpr size_t kKept = 3;          // 1/kKept of the contents is held back for the race
// Copies of a content in memory: the generated tensors, and tensors to compare with. On a device
// there are also tensors to deal (to write into the inputs of a call).
constexpr int64_t kContentCopies = 3, kMemoryShare = 8;  // an eighth of the machine's memory
constexpr int64_t kDeviceContentsMemory = int64_t{16} << 30;

// True for positions 0, 1, 4, 6, 8, ... in a version, which have ordinary inputs. Other positions
// have inputs of other families.
bool is_usual(size_t at) { return at < 2 || (at > 3 && at % 2 == 0); }

}  // namespace

// Each version gets two ordinary contents, and then other families and ordinary contents in turn,
// while time is left. The seed orders the families; families that do not fit the case are left out.
// With several versions, each one gets `contents_least` contents before any gets more. keep() then
// chooses the third that is held back. All of it is ordinary, and so is at least one content of the
// rest.
void OracleServer::make_contents(uint64_t seed) {
  std::vector<Family> others;
  for (const Family family : all_families()) {
    if (family == Family::ordinary) continue;
    if (!options_.families.empty() && std::find(options_.families.begin(), options_.families.end(),
                                                family_name(family)) == options_.families.end())
      continue;
    if (std::string why = family_unfit(resolved(), family); !why.empty())
      left_out_.emplace_back(family_name(family), std::move(why));
    else
      others.push_back(family);
  }
  Random random(seed_of("order of families", seed));
  for (size_t i = others.size(); i > 1; --i)
    std::swap(others[i - 1],
              others[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i)))]);
  const double start = now_seconds();
  const auto wanted = static_cast<size_t>(versions_wanted());
  int most = options_.contents_max * (ranks() > 1 ? 2 : 1);
  if (!device().host_memory()) most = std::min(most, kDeviceContents);
  const auto least = static_cast<size_t>(options_.contents_least);
  most = std::max(most, static_cast<int>(least * wanted));
  Pools made(1);
  size_t next = 0;     // index in `others` of the next family
  double first_s = 0;  // seconds until the first version had `least` contents
  int number = 0;
  for (; number < most && unjudged_.empty(); ++number) {
    const double passed = now_seconds() - start;
    if (made[0].size() >= least && passed > options_.seconds) break;
    options_.alive();
    auto pool =
        std::find_if(made.begin(), made.end(), [&](const auto& one) { return one.size() < least; });
    if (pool == made.end() && made.size() < wanted) {
      if (first_s == 0) first_s = passed;
      if (passed + first_s > options_.seconds) break;
      pool = made.insert(made.end(), std::vector<Content>());
    } else if (pool == made.end()) {
      pool = std::min_element(made.begin(), made.end(),
                              [](const auto& a, const auto& b) { return a.size() < b.size(); });
    }
    const bool usual = is_usual(pool->size()) || others.empty();
    const Family family = usual ? Family::ordinary : others[next++ % others.size()];
    if (!make_content(seed_of("contents " + std::to_string(number), seed), family,
                      static_cast<size_t>(pool - made.begin()), *pool))
      std::erase(others, family);
  }
  make_even(made);
  while (unjudged_.empty() && !others.empty() &&
         now_seconds() - start < std::max(options_.seconds, options_.families_s) &&
         make_row(made, others, seed, number)) {
  }
  const auto count = static_cast<double>(std::max(1, number));
  const double each_s = (now_seconds() - start) / count;
  for (const Family family : others)
    if (!has(made, family))
      left_out_.emplace_back(family_name(family), "no time or room: inputs and their answer take " +
                                                      human_duration(each_s) + " and " +
                                                      human_bytes(content_bytes()));
  keep(std::move(made));
}

bool OracleServer::has(const Pools& made, Family family) {
  return std::any_of(made.begin(), made.end(), [&](const auto& pool) {
    return std::any_of(pool.begin(), pool.end(),
                       [&](const Content& content) { return content.family == family; });
  });
}

// Adds one content to each version, of families that no content has yet. False if no such family is
// left, or no memory.
bool OracleServer::make_row(Pools& made, std::vector<Family>& others, uint64_t seed, int& number) {
  std::vector<Family> left = others;
  std::erase_if(left, [&](const Family family) { return has(made, family); });
  const size_t row = made[0].size();
  if (left.empty() || static_cast<int64_t>((row + 1) * made.size()) > contents_room()) return false;
  for (size_t version = 0; version < made.size() && unjudged_.empty(); ++version) {
    // A family that proves nothing in this case gets no content; the next family is tried.
    while (unjudged_.empty() && made[version].size() == row) {
      options_.alive();
      const bool usual = is_usual(row) || left.empty();
      const Family family = usual ? Family::ordinary : left.back();
      if (!usual) left.pop_back();
      if (!make_content(seed_of("contents " + std::to_string(number++), seed), family, version,
                        made[version]))
        std::erase(others, family);
    }
  }
  return true;
}

// Bytes of all copies of a content on all ranks, without weights.
int64_t OracleServer::content_bytes() const {
  int64_t out = 0;
  for (const auto& f : resolved().fields)
    for (int64_t i = 0; f.present && f.slot->section != SectionId::weights && i < f.entries; ++i)
      out += kContentCopies * numel(f.shape_of(i)) * fk::bytes(f.dtype);
  return std::max<int64_t>(1, out * ranks());
}

int64_t OracleServer::contents_room() const {
  int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE) / kMemoryShare;
  if (!device().host_memory()) memory = std::min(memory, kDeviceContentsMemory);
  return memory / content_bytes();
}

// Makes a content and adds it to a version. False if its family proves nothing with these inputs. A
// version's first content also makes its weights. Outliers have the seed of an ordinary content,
// each of another one. So a candidate that recognises inputs by a few elements confuses the two
// contents. One pair would not do: its few elements may be those that differ.
bool OracleServer::make_content(uint64_t seed, Family family, size_t version,
                                std::vector<Content>& pool) {
  const bool first = pool.empty();
  if (family == Family::outliers) {
    auto pairs = std::ranges::count(pool, family, &Content::family);
    for (const Content& c : pool)
      if (c.family == Family::ordinary && pairs-- == 0) seed = c.seed;
  }
  Content content{family, {}, {}, seed};
  for (const auto& buffers : buffers_) {
    if (first) {
      content.inputs.push_back(make_inputs(buffers->resolved(), seed, options_.threads));
    } else {
      content.inputs.push_back(
          make_forward_inputs(buffers->resolved(), seed, options_.threads, family));
      buffers->lend_weights(content.inputs.back(), version);
    }
    reorder_recorded(buffers->resolved(), seed, content.inputs.back());
    options_.alive();
  }
  content.want = answers_to(content.inputs);
  options_.alive();
  std::string meaningless;
  for (size_t r = 0; r < buffers_.size() && unjudged_.empty() && meaningless.empty(); ++r)
    meaningless = family_meaningless(buffers_[r]->resolved(), family, content.want[r]);
  const bool good = unjudged_.empty() && meaningless.empty();
  for (size_t r = 0; r < buffers_.size() && (good || !first); ++r)
    buffers_[r]->take_weights(content.inputs[r], version);
  if (good) pool.push_back(std::move(content));
  if (!good && unjudged_.empty()) left_out_.emplace_back(family_name(family), meaningless);
  return good;
}

// Replaces the contents from index `from` on by new inputs of the same families. A family may prove
// nothing with some inputs; then other inputs are tried.
void OracleServer::renew(size_t from, uint64_t seed, const std::function<void()>& alive) {
  constexpr int kTries = 16;
  for (size_t i = from; i < families_.size(); ++i) {
    bool good = false;
    for (int t = 0; t < kTries && !good; ++t) {
      alive();
      const uint64_t its = seed_of("contents " + std::to_string(i * kTries + t), seed);
      std::vector<CaseValues> inputs;
      for (const auto& buffers : buffers_) {
        inputs.push_back(
            make_forward_inputs(buffers->resolved(), its, options_.threads, families_[i]));
        reorder_recorded(buffers->resolved(), its, inputs.back());
        buffers->lend_weights(inputs.back(), i % versions_);
      }
      std::vector<CaseValues> want = answers_to(inputs);
      good = unjudged_.empty();
      for (size_t r = 0; r < buffers_.size() && good; ++r)
        good = family_meaningless(buffers_[r]->resolved(), families_[i], want[r]).empty();
      for (size_t r = 0; r < buffers_.size(); ++r) {
        if (good)
          buffers_[r]->replace(i, std::move(inputs[r]), std::move(want[r]));
        else
          buffers_[r]->take_weights(inputs[r], i % versions_);
      }
    }
    if (!good)
      fail(oracle_,
           "it has no answer to other contents" + (unjudged_.empty() ? "" : ": " + unjudged_));
  }
  synchronize();
}

// Drops versions with fewer than the least contents, and one more if the number of versions is
// even. Then all versions get equally many contents.
void OracleServer::make_even(Pools& made) const {
  const auto least = static_cast<size_t>(options_.contents_least);
  while (made.size() > 1 && (made.back().size() < least || made.size() % 2 == 0)) made.pop_back();
  size_t each = made[0].size();
  for (const auto& pool : made) each = std::min(each, pool.size());
  for (auto& pool : made) pool.erase(pool.begin() + static_cast<std::ptrdiff_t>(each), pool.end());
}

void OracleServer::keep(Pools made) {
  make_even(made);
  const size_t each = made[0].size();
  versions_ = static_cast<int>(made.size());
  for (const auto& buffers : buffers_) buffers->keep_versions(made.size());
  for (auto& pool : made) {
    // Moves ordinary contents to the last third. The race calls each of these once, and compares
    // the times with calls on contents that were called before.
    size_t last = each;
    for (size_t i = each; i-- > 1 && each - last < each / kKept;)
      if (pool[i].family == Family::ordinary)
        std::rotate(&pool[i], &pool[i] + 1, &pool[0] + last--);
  }
  for (size_t i = 0; i < each; ++i) {
    for (auto& pool : made) {
      families_.push_back(pool[i].family);
      for (size_t r = 0; r < buffers_.size(); ++r)
        buffers_[r]->add(std::move(pool[i].inputs[r]), std::move(pool[i].want[r]));
    }
  }
}

}  // namespace fk
