// SPDX-License-Identifier: Apache-2.0
// The store's few SQLite calls, as values that release their resources. Only in hosts built with
// SQLite.
#pragma once
#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fk {

struct DatabaseError : std::runtime_error {
  DatabaseError(int c, const std::string& text) : std::runtime_error(text), code(c & 0xff) {}
  int code;  // SQLITE_BUSY, SQLITE_CORRUPT ...
  // True if the file is no database, or a damaged one.
  bool corrupt() const { return code == SQLITE_CORRUPT || code == SQLITE_NOTADB; }
};

class Database {
 public:
  Database() = default;
  // Opens or creates the file. Waits at most `patience_ms` for other users. Everything here throws
  // DatabaseError.
  Database(const std::filesystem::path& file, int patience_ms);
  Database(Database&& other) noexcept : db_(other.db_) { other.db_ = nullptr; }
  Database& operator=(Database&& other) noexcept;
  ~Database() { close(); }

  void run(const std::string& sql);  // one or more statements without results
  void wait_at_most(int ms) { sqlite3_busy_timeout(db_, ms); }
  sqlite3* handle() const { return db_; }
  explicit operator bool() const { return db_ != nullptr; }
  void close();

 private:
  sqlite3* db_ = nullptr;
};

// All statements in its life take effect together, or none. It waits for other writers first.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) {
    database_.run("BEGIN IMMEDIATE");
  }
  ~Transaction() {
    if (open_) sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  void commit() {
    database_.run("COMMIT");
    open_ = false;
  }

 private:
  Database& database_;
  bool open_ = true;
};

class Statement {
 public:
  Statement(const Database& database, std::string_view sql);
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;

  // Call it once for each question mark, in order.
  Statement& bind(std::string_view text);
  Statement& bind(int64_t number);
  Statement& bind(std::optional<double> number);  // without a value, NULL
  bool step();                                    // false: no further row
  std::string text(int column) const;
  std::optional<double> real(int column) const;  // nothing for NULL
  int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }

 private:
  [[noreturn]] void fail() const;
  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

}  // namespace fk
