// SPDX-License-Identifier: Apache-2.0
// Calls SQLite, and throws DatabaseError for each failure (database.hpp).
#if defined(FK_SQLITE)
#include "core/store/database.hpp"

#include <utility>

namespace fk {

Database::Database(const std::filesystem::path& file, int patience_ms) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(file.c_str(), &db_, flags, nullptr);
  if (code != SQLITE_OK) {
    const std::string text = db_ ? sqlite3_errmsg(db_) : sqlite3_errstr(code);
    close();
    throw DatabaseError(code, text);
  }
  sqlite3_busy_timeout(db_, patience_ms);
}

Database& Database::operator=(Database&& other) noexcept {
  std::swap(db_, other.db_);
  return *this;
}

void Database::close() {
  sqlite3_close_v2(db_);
  db_ = nullptr;
}

void Database::run(const std::string& sql) {
  const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) throw DatabaseError(code, sqlite3_errmsg(db_));
}

Statement::Statement(const Database& database, std::string_view sql) : db_(database.handle()) {
  if (sqlite3_prepare_v2(db_, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr) !=
      SQLITE_OK)
    fail();
}

Statement& Statement::bind(std::string_view text) {
  if (sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT,
                          SQLITE_UTF8) != SQLITE_OK)
    fail();
  return *this;
}

Statement& Statement::bind(int64_t number) {
  if (sqlite3_bind_int64(statement_, ++bound_, number) != SQLITE_OK) fail();
  return *this;
}

Statement& Statement::bind(std::optional<double> number) {
  ++bound_;
  const int code = number ? sqlite3_bind_double(statement_, bound_, *number)
                          : sqlite3_bind_null(statement_, bound_);
  if (code != SQLITE_OK) fail();
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) fail();
  return false;
}

std::string Statement::text(int column) const {
  const auto* text = sqlite3_column_text(statement_, column);
  const int bytes = sqlite3_column_bytes(statement_, column);
  return text ? std::string(reinterpret_cast<const char*>(text), static_cast<size_t>(bytes)) : "";
}

std::optional<double> Statement::real(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return sqlite3_column_double(statement_, column);
}

void Statement::fail() const { throw DatabaseError(sqlite3_errcode(db_), sqlite3_errmsg(db_)); }

}  // namespace fk
#endif
