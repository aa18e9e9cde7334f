// SPDX-License-Identifier: Apache-2.0
// The store in SQLite. A fault of the database never fails a question: guarded() notes it, and
// replaces a damaged file. Without SQLite the store is unusable.
#include "core/store/store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"

#if defined(FK_SQLITE)
#include "core/store/database.hpp"
#endif

namespace fk {

namespace fs = std::filesystem;

namespace {

constexpr const char* kKeyFile = "signing.key";

#if defined(FK_SQLITE)
constexpr const char* kFile = "verdicts.sqlite";
constexpr int kVersion = 1;           // version of the tables
constexpr int kPatienceMs = 2000;     // wait for other writers, which take a few ms
constexpr int64_t kKeptMax = 20'000;  // limit of verdicts, and of files; older ones are deleted
// younger files may still change unseen: their hashes are not kept
constexpr int64_t kSettledNs = 2'000'000'000;

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS verdicts (
  number INTEGER PRIMARY KEY, key TEXT NOT NULL, id TEXT NOT NULL, time TEXT NOT NULL,
  candidate TEXT NOT NULL, status TEXT NOT NULL, device TEXT NOT NULL, receipt TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS verdicts_by_key ON verdicts (key);
CREATE INDEX IF NOT EXISTS verdicts_by_id ON verdicts (id);
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, sha256 TEXT NOT NULL);
)";

int64_t nanoseconds(const timespec& t) { return t.tv_sec * 1'000'000'000 + t.tv_nsec; }

int64_t version_of(const Database& db) {
  Statement pragma(db, "PRAGMA user_version");
  return pragma.step() ? pragma.number(0) : 0;
}

// A file with other tables is no store, whatever its version: no host would mend it.
void check_tables(const Database& db) {
  if (version_of(db) != kVersion) return;
  try {
    Statement(db, "SELECT number, key, id, time, candidate, status, device, receipt FROM verdicts");
    Statement(db, "SELECT path, stamp, sha256 FROM files");
  } catch (const DatabaseError& error) {
    if (error.code != SQLITE_ERROR) throw;
    throw DatabaseError(SQLITE_CORRUPT, error.what());
  }
}

// Held while a process makes or replaces the database: other processes wait.
class MakersLock {
 public:
  explicit MakersLock(const fs::path& file) {
    const fs::path lock = file.string() + ".lock";
    fd_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    constexpr int kStepMs = 10;
    for (int waited = 0; fd_ >= 0; waited += kStepMs) {
      if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
      if (errno != EWOULDBLOCK || waited >= kPatienceMs) break;
      ::usleep(kStepMs * 1000);
    }
    const int code = errno;
    if (fd_ >= 0) ::close(fd_);
    throw DatabaseError(SQLITE_CANTOPEN, lock.string() + ": " + std::strerror(code));
  }
  ~MakersLock() { ::close(fd_); }
  MakersLock(const MakersLock&) = delete;

 private:
  int fd_ = -1;
};

// WAL needs memory which all writers share, so it works on one machine alone. Folders of several
// machines (job arrays) get a journal, by the numbers of statfs(2).
const char* journal_of(const fs::path& file) {
  constexpr std::array<unsigned, 10> kOfNetworks = {0x6969,       // NFS
                                                    0x517b,       // SMB
                                                    0xff534d42,   // CIFS
                                                    0xfe534d42,   // SMB 2
                                                    0x0bd00bd0,   // Lustre
                                                    0x47504653,   // GPFS
                                                    0x19830326,   // BeeGFS
                                                    0x00c36400,   // Ceph
                                                    0x65735546,   // FUSE
                                                    0x01021997};  // 9P
  struct statfs found {};
  if (::statfs(file.parent_path().c_str(), &found) != 0) return "WAL";
  const bool remote = std::ranges::count(kOfNetworks, static_cast<unsigned>(found.f_type)) > 0;
  return remote ? "DELETE" : "WAL";
}

// An open database with its tables. Throws DatabaseError, and Error for a newer host's database.
Database ready(const fs::path& file) {
  Database db(file, kPatienceMs);
  db.run("PRAGMA synchronous=NORMAL");
  const int64_t version = version_of(db);
  if (version > kVersion)
    fail(file.string(), "was made by a newer fk-host", "FK_DATA names another folder");
  check_tables(db);
  if (version == kVersion) return db;
  // A change of the journal's mode does not wait for other writers; it fails.
  const MakersLock lock(file);
  if (version_of(db) == kVersion) return db;
  db.run(std::string("PRAGMA journal_mode=") + journal_of(file));
  db.run(std::string("BEGIN IMMEDIATE;") + kTables +
         "PRAGMA user_version=" + std::to_string(kVersion) + "; COMMIT");
  return db;
}

// Moves a file that is no database aside. If several processes find it broken, the first one moves
// it; the others then find a sound file.
std::string move_aside(const fs::path& file) {
  const MakersLock lock(file);
  try {
    Database db(file, kPatienceMs);
    Statement check(db, "PRAGMA quick_check");
    check_tables(db);
    if (check.step() && check.text(0) == "ok") return {};
  } catch (const DatabaseError& error) {
    if (!error.corrupt()) throw;
  }
  const std::string aside = file.string() + ".broken-" + std::to_string(std::time(nullptr)) + "-" +
                            std::to_string(::getpid());
  for (const char* part : {"", "-wal", "-shm"}) {
    std::error_code gone;
    fs::rename(file.string() + part, aside + part, gone);
    if (gone && !*part) throw DatabaseError(SQLITE_CANTOPEN, gone.message());
  }
  return file.string() + " was damaged; it is " + aside + " now, and a new one was begun";
}
#endif

}  // namespace

#if defined(FK_SQLITE)

struct Store::State {
  Database db;
};

std::string no_store() { return {}; }

// Catches every fault of the database. A damaged file is replaced; the answer is lost.
template <class Result, class Action>
Result Store::guarded(Result otherwise, const Action& action) {
  if (!usable()) return otherwise;
  try {
    return action(state_->db);
  } catch (const DatabaseError& error) {
    if (!error.corrupt()) {
      const std::string note = "the store of verdicts: " + std::string(error.what());
      if (notes_.empty() || notes_.back() != note) notes_.push_back(note);
      // No second wait for the same holder: a question reads many files.
      if (error.code == SQLITE_BUSY) state_->db.wait_at_most(0);
      return otherwise;
    }
  }
  try {
    state_->db.close();
    if (const auto note = move_aside(folder_ / kFile); !note.empty()) notes_.push_back(note);
    state_->db = ready(folder_ / kFile);
  } catch (const std::exception& error) {
    why_ = error.what();
  }
  return otherwise;
}

Store::Store(const fs::path& folder, bool database)
    : folder_(folder), state_(std::make_unique<State>()) {
  signer_ = Signer::open(folder / kKeyFile, unsigned_because_);
  if (!database) why_ = "it was not asked for";
  if (!database) return;
  std::error_code code;
  fs::create_directories(folder, code);
  const fs::path file = folder / kFile;
  try {
    try {
      state_->db = ready(file);
    } catch (const DatabaseError& error) {
      if (!error.corrupt()) throw;
      if (const auto note = move_aside(file); !note.empty()) notes_.push_back(note);
      state_->db = ready(file);
    }
  } catch (const DatabaseError& error) {
    why_ = file.string() + ": " + (code ? code.message() : error.what());
  } catch (const Error& error) {
    why_ = error.what();
  }
}

bool Store::usable() const { return why_.empty(); }

std::optional<Receipt> Store::find(const VerdictKey& key) {
  const std::string hash = key.hash();
  const auto text = guarded(std::string(), [&](const Database& db) {
    Statement row(db, "SELECT receipt FROM verdicts WHERE key=? ORDER BY number DESC LIMIT 1");
    return row.bind(hash).step() ? row.text(0) : std::string();
  });
  if (text.empty()) return std::nullopt;
  try {
    std::string unverified;
    Receipt receipt = read_receipt(parse_json(text, "store"), "store", unverified);
    if (receipt.key.hash() != hash) fail("store", "is the answer to another question");
    // Without its key this host cannot tell its own receipts; without OpenSSL no host can.
    if (receipt.signed_by != (signer_ ? signer_->public_key() : std::string()) ||
        (!signer_ && no_signatures().empty()))
      fail("store", "was not signed by this host");
    return receipt;
  } catch (const Error& error) {
    notes_.push_back("a stored verdict is not used: " + std::string(error.what()));
    return std::nullopt;
  }
}

bool Store::put(const VerdictKey& key, const Json& receipt) {
  const auto text = [&](const char* name) { return receipt["verdict"][name].get<std::string>(); };
  return guarded(false, [&](Database& db) {
    Statement insert(db,
                     "INSERT INTO verdicts (key, id, time, candidate, status, device, receipt) "
                     "VALUES (?, ?, ?, ?, ?, ?, ?)");
    insert.bind(key.hash()).bind(text("receipt")).bind(text("time"));
    insert.bind(receipt["verdict"]["candidate"]["name"].get<std::string>());
    insert.bind(text("status")).bind(text("device")).bind(receipt.dump()).step();
    const int64_t number = sqlite3_last_insert_rowid(db.handle());
    Statement prune(db, "DELETE FROM verdicts WHERE number <= ?");
    prune.bind(number - kKeptMax).step();
    return true;
  });
}

Json Store::receipt(const std::string& id) {
  if (!usable()) fail("store", "cannot be used: " + why_);
  std::vector<std::string> found;
  guarded(false, [&](const Database& db) {
    Statement rows(db, "SELECT DISTINCT receipt FROM verdicts WHERE substr(id, 1, ?)=? LIMIT 2");
    rows.bind(static_cast<int64_t>(id.size())).bind(id);
    while (rows.step()) found.push_back(rows.text(0));
    return true;
  });
  if (found.size() != 1 || id.empty())
    fail("store",
         (found.empty() ? "there is no receipt `" : "there are several receipts `") + excerpt(id) +
             "`",
         "fk-host receipts lists them");
  return parse_json(found[0], "receipt " + id);
}

std::vector<Store::Row> Store::newest(int count) {
  std::vector<Row> out;
  const auto most = static_cast<size_t>(count);
  each({}, [&](const Row& row, const std::string&) {
    if (out.size() < most) out.push_back(row);
    return out.size() < most;
  });
  return out;
}

void Store::each(const Search& search,
                 const std::function<bool(const Row&, const std::string&)>& take) {
  guarded(false, [&](const Database& db) {
    Statement rows(db,
                   "SELECT id, time, candidate, status, device, key, receipt FROM verdicts "
                   "WHERE (?='' OR candidate=?) AND (?='' OR status=?) AND time>=? "
                   "ORDER BY number DESC");
    rows.bind(search.candidate).bind(search.candidate).bind(search.status).bind(search.status);
    rows.bind(search.since);
    while (rows.step() && take({rows.text(0), rows.text(1), rows.text(2), rows.text(3),
                                rows.text(4), rows.text(5)},
                               rows.text(6))) {
    }
    return true;
  });
}

std::string Store::file_hash(const fs::path& file) {
  struct stat s {};
  if (::stat(file.c_str(), &s) != 0 || !usable()) return sha256_file(file);
  std::string stamp;
  for (const int64_t n :
       {static_cast<int64_t>(s.st_dev), static_cast<int64_t>(s.st_ino),
        static_cast<int64_t>(s.st_size), nanoseconds(s.st_mtim), nanoseconds(s.st_ctim)})
    stamp += std::to_string(n) + " ";
  const std::string path = fs::absolute(file).lexically_normal();
  const auto known = guarded(std::string(), [&](const Database& db) {
    Statement row(db, "SELECT sha256 FROM files WHERE path=? AND stamp=?");
    return row.bind(path).bind(stamp).step() ? row.text(0) : std::string();
  });
  if (!known.empty()) return known;
  const std::string hash = sha256_file(file);
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  // A file that has just changed may change again within the resolution of its times.
  if (nanoseconds(now) - nanoseconds(s.st_ctim) > kSettledNs)
    guarded(false, [&](const Database& db) {
      Statement put(db, "INSERT OR REPLACE INTO files (path, stamp, sha256) VALUES (?, ?, ?)");
      put.bind(path).bind(stamp).bind(hash).step();
      Statement prune(db, "DELETE FROM files WHERE rowid <= (SELECT max(rowid) FROM files) - ?");
      prune.bind(kKeptMax).step();
      return true;
    });
  return hash;
}

#else

struct Store::State {};

std::string no_store() { return "fk-host was built without SQLite (libsqlite3-dev)"; }

Store::Store(const fs::path& folder, bool) : folder_(folder), why_(no_store()) {
  signer_ = Signer::open(folder / kKeyFile, unsigned_because_);
}

bool Store::usable() const { return false; }
std::optional<Receipt> Store::find(const VerdictKey&) { return std::nullopt; }
bool Store::put(const VerdictKey&, const Json&) { return false; }
Json Store::receipt(const std::string&) { fail("store", "cannot be used: " + why_); }
std::vector<Store::Row> Store::newest(int) { return {}; }
void Store::each(const Search&, const std::function<bool(const Row&, const std::string&)>&) {}
std::string Store::file_hash(const fs::path& file) { return sha256_file(file); }

#endif

Store::Store(Store&&) noexcept = default;
Store::~Store() = default;

Store Store::open_default(bool database) {
  try {
    return Store(paths::data_dir(), database);
  } catch (const Error& error) {
    Store none(fs::path("/dev/null"), false);
    none.why_ = none.unsigned_because_ = error.what();
    return none;
  }
}

}  // namespace fk
