// SPDX-License-Identifier: Apache-2.0
// All inputs of a verdict, by name and hash: two questions with the same key have the same answer.
// The key is made without parsing a contract, mapping a plugin or opening a device: a repeated
// question must be answered in milliseconds.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.hpp"
#include "core/judge/verdict/verdict.hpp"

namespace fk {

class Store;

// JSON text with sorted keys and no blanks, in UTF-8, numbers in their shortest exact form.
std::string canonical_text(const Json& json);

struct VerdictKey {
  std::map<std::string, std::string> parts;
  void add(std::string name, std::string value) {
    parts.emplace(std::move(name), std::move(value));
  }
  std::string hash() const;  // SHA-256 of the canonical parts
  Json parts_json() const;
};
template <class Visitor>
void fields(Visitor& v, VerdictKey& key) {
  std::string hash = key.hash();  // a reader compares it with that of the parts
  v("hash", hash, "SHA-256 of the parts");
  v("parts", key.parts, "all inputs of the verdict by name: hashes of files, and options");
}

struct Question {
  std::filesystem::path candidate;
  std::string candidate_hash;  // SHA-256 of the file; empty: computed now
  Policy policy;
  std::string device = "cpu";
  // Further inputs of the answer, by name: captured inputs, limits.
  std::vector<std::pair<std::string, std::string>> also;
};

// The parts of every question on a device: baselines, their ranking, device, driver, and this
// program's build.
void add_machine(const std::string& device, Store& store, VerdictKey& key);

// The parts are the candidate's file, the contracts of its ops with their cases, and every baseline
// with its ranking. Device, driver, this program's build and the policy are parts too. Error when
// the candidate cannot be read. A file that is no plugin has a key too.
VerdictKey key_of(const Question& question, Store& store);

}  // namespace fk
