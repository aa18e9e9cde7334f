// SPDX-License-Identifier: Apache-2.0
// What a verdict depends on, by name and hash: two questions with the same key have the same
// answer. It is put together without parsing a contract, mapping a plugin or opening a device,
// because a question that was asked before is to be answered in milliseconds.
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.hpp"
#include "core/judge/verdict/verdict.hpp"

namespace fk {

class Store;

// Keys sorted, no blanks, UTF-8, numbers in the shortest form that reads back.
std::string canonical_text(const Json& json);

struct VerdictKey {
  std::vector<std::pair<std::string, std::string>> parts;  // in any order, no name twice
  void add(std::string name, std::string value) {
    parts.emplace_back(std::move(name), std::move(value));
  }
  std::string hash() const;  // SHA-256 of the canonical parts
  Json parts_json() const;   // sorted by name
};

struct Question {
  std::filesystem::path candidate;
  std::string candidate_hash;  // SHA-256 of it; empty: taken now
  Policy policy;
  std::string device = "cpu";
  // What else the asker's answer depends on, by name: captured inputs, limits.
  std::vector<std::pair<std::string, std::string>> also;
};

// The candidate's file, the files of the contracts of its ops (which hold the cases too), every
// baseline and its ranking, device and driver, this program's build, and the policy. Error when the
// candidate cannot be read; one that is no plugin has a key all the same.
VerdictKey key_of(const Question& question, Store& store);

}  // namespace fk
