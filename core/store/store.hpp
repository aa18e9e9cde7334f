// SPDX-License-Identifier: Apache-2.0
// Verdicts that were given, by what they depend on, so that a question that was asked before is
// answered at once. One SQLite file in the user's data folder, for all processes at once; receipts
// are kept whole, and what does not bear this host's signature any more is not believed. A store
// that cannot be used is never a reason to fail: it says why, and answers nothing.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/store/receipt.hpp"

namespace fk {

// Empty, or why this host has no store at all.
std::string no_store();

class Store {
 public:
  struct Row {
    std::string id, time, candidate, status, device, key;
  };
  // In paths::data_dir(). Without `database` there is a signer only.
  static Store open_default(bool database = true);
  // Makes the folder, the file and the signing key where they are missing. Never throws. A file
  // that is no database is moved aside, with a note.
  explicit Store(const std::filesystem::path& folder, bool database = true);
  Store(Store&&) noexcept;
  ~Store();

  bool usable() const;
  const std::string& why() const { return why_; }  // why it is not usable
  // What was found on the way and the user should know, in sentences.
  const std::vector<std::string>& notes() const { return notes_; }
  // Null without signatures, unsigned_because() has the reason; there without a database too.
  const Signer* signer() const { return signer_ ? &*signer_ : nullptr; }
  const std::string& unsigned_because() const { return unsigned_because_; }

  // The newest receipt for a key. Nothing when there is none, or none that this host signed (or
  // could have signed, where it has no signatures).
  std::optional<Receipt> find(const VerdictKey& key);
  // False with a note when it could not be written.
  bool put(const VerdictKey& key, const Json& receipt);
  // By the first digits of its id; Error when there is none or more than one.
  Json receipt(const std::string& id);
  std::vector<Row> newest(int count);

  // SHA-256 of a file, from memory when neither its inode, size nor times have changed since it was
  // hashed. Only for files of this installation: whoever owns a file can make it look unchanged.
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
