// SPDX-License-Identifier: Apache-2.0
// Reads cases that were recorded from a run (docs/record.md). The index is untrusted: every name,
// shape and hash is checked before a kernel gets any of it.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"
#include "core/exec/capture_index.hpp"
#include "core/tensor/safetensors.hpp"

namespace fk {

class Captured {
 public:
  // Error names file, case and field. `catalog` must outlive the result.
  static Captured open(const std::filesystem::path& folder, const Catalog& catalog);

  std::vector<std::string> ops() const;  // sorted
  std::vector<std::string> case_names(const std::string& op) const;
  // The op's cases with their contents, `size` "captured"; empty if the op was not recorded. A
  // recorded call of several ranks has one rank's contents. The case keeps the contents that all
  // ranks share by the contract; each rank makes its own of the others. Error when a tensor does
  // not match its hash.
  std::vector<Case> cases(const std::string& op) const;
  // A field whose recorded numbers belong to one rank only and cannot be generated for the others;
  // empty: none.
  static std::string of_one_rank(const Contract& contract, const Case& source);

  const std::string& scenario() const { return scenario_; }
  bool random_weights() const { return random_; }
  // "from mixtral (tiny), random weights, so the routing is random too"
  std::string origin() const;

 private:
  struct Entry {
    Case source;
    std::map<std::string, std::vector<std::string>> tensors;  // by field
  };
  Entry read_case(const RecordedCase& recorded, const std::string& where,
                  const Contract& contract) const;
  void read_tensors(const RecordedCase& recorded, const Contract& contract, Entry& entry) const;
  const StoredTensor* find(const std::string& name) const;

  std::string where_, scenario_, profile_;
  bool random_ = false, routed_ = false;
  std::vector<SafeTensors> files_;
  std::map<std::string, std::vector<Entry>> entries_;
  const Catalog* catalog_ = nullptr;
};

}  // namespace fk
