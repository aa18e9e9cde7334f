// SPDX-License-Identifier: Apache-2.0
// Earlier verdicts by their inputs, so that a repeated question is answered at once. One SQLite
// file in the user's data folder serves all processes at once. Receipts are kept whole; a receipt
// without this host's valid signature is not used. An unusable store is never an error: it reports
// the reason and finds nothing.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/store/receipt.hpp"

namespace fk {

// Empty, or the reason why this host has no store.
std::string no_store();

class Store {
 public:
  struct Row {
    std::string id, time, candidate, status, device, key;
  };
  // Empty texts match every row.
  struct Search {
    std::string candidate, status;
    std::string since;  // the earliest begin, as in a verdict; a date alone is its midnight
  };
  // The store in paths::data_dir(). Without `database` it has only a signer.
  static Store open_default(bool database = true);
  // Makes missing folders, files and signing keys. Never throws. A file that is no database is
  // moved aside, with a note.
  explicit Store(const std::filesystem::path& folder, bool database = true);
  Store(Store&&) noexcept;
  ~Store();

  bool usable() const;
  const std::string& why() const { return why_; }  // why it is unusable
  // Findings for the user, in sentences.
  const std::vector<std::string>& notes() const { return notes_; }
  // Null without signatures; unsigned_because() then has the reason. Works without a database too.
  const Signer* signer() const { return signer_ ? &*signer_ : nullptr; }
  const std::string& unsigned_because() const { return unsigned_because_; }

  // The newest receipt for a key, signed by this host. A host without signatures accepts unsigned
  // receipts. Nothing when there is none.
  std::optional<Receipt> find(const VerdictKey& key);
  // False with a note when it could not be written.
  bool put(const VerdictKey& key, const Json& receipt);
  // Finds a receipt by the first digits of its id. Error when none or several match.
  Json receipt(const std::string& id);
  std::vector<Row> newest(int count);
  // Gives rows and the text of their receipts to `take`, the newest first, until it returns false.
  // `take` must not use the store.
  void each(const Search& search,
            const std::function<bool(const Row& row, const std::string& receipt)>& take);

  // SHA-256 of a file; from memory if its inode, size and times have not changed since it was
  // hashed. Only for files of this installation, because a file's owner can make changes invisible.
  std::string file_hash(const std::filesystem::path& file);

 private:
  struct State;
  template <class Result, class Action>
  Result guarded(Result otherwise, const Action& action);

  std::filesystem::path folder_;
  std::unique_ptr<State> state_;
  std::optional<Signer> signer_;
  std::string why_, unsigned_because_;
  std::vector<std::string> notes_;
};

}  // namespace fk
