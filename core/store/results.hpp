// SPDX-License-Identifier: Apache-2.0
// A folder of results, one file for each, named by the hash of all that the result depends on.
// Plain files, because several machines may share the folder. A result without this host's valid
// signature is not used.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/store/key.hpp"
#include "core/store/signer.hpp"

namespace fk {

class ResultFolder {
 public:
  // With `shared` other shared holders may work in the folder too: parts of one evaluation.
  enum class Hold : uint8_t { alone, shared };
  // Makes the folder and holds its lock. HostError when another process holds it, or when the
  // folder cannot be written. `signer` (null: results are not signed) outlives this object.
  ResultFolder(const std::filesystem::path& folder, const Signer* signer,
               std::string unsigned_because, Hold hold = Hold::alone);
  ResultFolder(const ResultFolder&) = delete;
  ~ResultFolder();

  // Nothing when there is none; notes() has the reason why a present one is not used.
  std::optional<Json> find(const VerdictKey& key);
  // HostError when it cannot be written: earlier results stay.
  void put(const VerdictKey& key, Json result);
  // All usable results, in any order.
  std::vector<Json> all();

  const std::filesystem::path& path() const { return folder_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::optional<Json> read(const std::filesystem::path& file);

  std::filesystem::path folder_;
  const Signer* signer_;
  std::string unsigned_because_;
  int lock_ = -1;
  std::vector<std::string> notes_;
};

}  // namespace fk
