// SPDX-License-Identifier: Apache-2.0
// The store: what was put is found, by many writers at once; what is damaged, forged or cannot be
// written never stops anybody. Receipts: a changed byte fails.
#include "core/store/store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/judge/verdict/secret.hpp"
#include "core/store/signed.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"
#if defined(FK_SQLITE)
#include "core/store/database.hpp"
#endif

using namespace fk;
namespace fs = std::filesystem;

namespace {

Verdict some_verdict(const std::string& name) {
  Verdict v;
  v.candidate = {name, "1.0", name + ".so", "00"};
  CaseVerdict c;
  c.op = "rms_norm";
  c.case_name = "small";
  c.status = Status::wrong;
  c.why = "row 3";
  v.cases = {c};
  const Secret secret = Secret::draw();
  v.secret = secret.hex();
  v.commitment = secret.commitment();
  v.time = "2026-01-31T12:00:00Z";
  conclude(v);
  return v;
}

VerdictKey key_of(const std::string& text) {
  VerdictKey key;
  key.add("size", "smoke");
  key.add("candidate", sha256(text));
  return key;
}

bool put(Store& store, const std::string& name) {
  const auto key = key_of(name);
  return store.put(key,
                   make_receipt(key, some_verdict(name), store.signer(), store.unsigned_because()));
}

void scribble(const fs::path& file, off_t at, const std::string& text) {
  const int fd = ::open(file.c_str(), O_WRONLY);
  REQUIRE(fd >= 0);
  REQUIRE(::pwrite(fd, text.data(), text.size(), at) == static_cast<ssize_t>(text.size()));
  ::close(fd);
}

fs::path database(const Folder& folder) { return folder.path / "verdicts.sqlite"; }

}  // namespace

TEST_CASE("a key does not depend on the order of its parts, and on everything else") {
  VerdictKey a, b, c;
  a.add("x", "1"), a.add("y", "2");
  b.add("y", "2"), b.add("x", "1");
  c.add("x", "12"), c.add("y", "");
  CHECK(a.hash() == b.hash());
  CHECK(a.hash() != c.hash());
  CHECK(a.hash() == sha256(R"({"x":"1","y":"2"})"));
}

TEST_CASE("canonical text has sorted keys, no blanks and numbers that read back") {
  const Json json =
      parse_json(R"({"b": [1, 0.1, 1e-300], "a": {"d": null, "c": "\u00e9\n"}})", "x");
  CHECK(canonical_text(json) == "{\"a\":{\"c\":\"é\\n\",\"d\":null},\"b\":[1,0.1,1e-300]}");
  CHECK(canonical_text(parse_json(canonical_text(json), "x")) == canonical_text(json));
}

TEST_CASE("signatures", "[signature]") {
  if (!no_signatures().empty()) SUCCEED(no_signatures());
  if (!no_signatures().empty()) return;
  const Folder folder;
  const fs::path file = folder.path / "deep" / "key";
  std::string why;
  const auto signer = Signer::open(file, why);
  INFO(why);
  REQUIRE(signer);
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  const std::string text = "what is signed", signature = signer->sign(text);
  CHECK(verify_signature(signer->public_key(), text, signature, why));
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK_FALSE(verify_signature(signer->public_key(), changed, signature, why));
  }
  std::string other = signature;
  other[5] = other[5] == '0' ? '1' : '0';
  CHECK_FALSE(verify_signature(signer->public_key(), text, other, why));
  CHECK_FALSE(verify_signature(signer->public_key(), text, "12", why));

  // The same key the next time, and none that others could have read.
  CHECK(Signer::open(file, why)->public_key() == signer->public_key());
  fs::permissions(file, fs::perms::group_read, fs::perm_options::add);
  CHECK_FALSE(Signer::open(file, why));
  CHECK_THAT(why, ContainsSubstring("chmod 600"));
  fs::permissions(file, fs::perms::owner_read);
  if (::chown(file.c_str(), 12345, 12345) != 0) return;  // root alone can read it then
  CHECK_FALSE(Signer::open(file, why));
  CHECK_THAT(why, ContainsSubstring("of another user"));
}

TEST_CASE("a published test vector of Ed25519 holds", "[signature]") {
  if (!no_signatures().empty()) return;
  // RFC 8032, 7.1, TEST 2.
  const Folder folder;
  const fs::path file = folder.path / "key";
  write_file_atomic(file, "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb\n");
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  std::string why;
  const auto signer = Signer::open(file, why);
  REQUIRE(signer);
  CHECK(signer->public_key() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
  CHECK(signer->sign("\x72") ==
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
}

TEST_CASE("a receipt reads back, and a change anywhere in it is found") {
  const Folder folder;
  Store store(folder.path);
  const auto key = key_of("mine");
  const Json json =
      make_receipt(key, some_verdict("mine"), store.signer(), store.unsigned_because());
  std::string unverified;
  const Receipt back = read_receipt(parse_json(json.dump(1), "r"), "r", unverified);
  CHECK(back.key.hash() == key.hash());
  CHECK(back.verdict.status == Status::wrong);
  CHECK(back.verdict.receipt == receipt_id(json));
  CHECK(unverified == no_signatures());
  // Without signatures the id, which anybody can compute, is what is left.
  for (const auto& [where, value] :
       std::vector<std::pair<std::string, Json>>{{"/verdict/status", "faster"},
                                                 {"/verdict/seconds", 17},
                                                 {"/verdict/cases/0/why", "row 4"},
                                                 {"/verdict/secret", std::string(64, '0')},
                                                 {"/verdict/commitment", std::string(64, '0')},
                                                 {"/verdict/receipt", "0000000000000000"},
                                                 {"/key/parts/size", "full"},
                                                 {"/key/hash", std::string(64, '0')},
                                                 {"/signed_by", std::string(64, '0')},
                                                 {"/signature", std::string(128, '0')},
                                                 {"/schema", "fk-host.receipt/2"}}) {
    Json changed = json;
    changed[Json::json_pointer(where)] = value;
    INFO(where);
    CHECK_THROWS_AS(read_receipt(changed, "r", unverified), Error);
  }
}

// receipt.json was written by an earlier host, and signed with the key of RFC 8032, 7.1, TEST 2.
TEST_CASE("a recorded receipt reads back, and is signed as before") {
  const std::string file = paths::home() / "test/unit/store/receipt.json";
  const Json recorded = load_json(file);
  std::string unverified;
  const Receipt back = read_receipt(recorded, file, unverified);
  CHECK(unverified == no_signatures());
  CHECK(back.key.parts.at("size") == "smoke");
  CHECK(back.verdict.status == Status::correct);
  CHECK(back.verdict.cases.at(0).op == "rms_norm");
  CHECK(back.signed_by == recorded.at("signed_by").get<std::string>());

  // The frame of a new receipt has the same keys in the same order, and the same bytes. A verdict
  // may have new fields, so a signature of its own is compared without them.
  const Folder folder;
  write_file_atomic(folder.path / "key",
                    "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb\n");
  fs::permissions(folder.path / "key", fs::perms::owner_read | fs::perms::owner_write);
  std::string why;
  const auto signer = Signer::open(folder.path / "key", why);
  Json made = make_receipt(back.key, back.verdict, signer ? &*signer : nullptr, why);
  if (signer) {
    Json same = made;
    same["verdict"] = recorded["verdict"];
    sign(same, &*signer);
    CHECK(same.dump(1) + "\n" == read_file(file));
  }
  CHECK(made["key"].dump() == recorded["key"].dump());
  made["verdict"].erase("receipt");
  for (const auto& [key, value] : made["verdict"].items()) {
    INFO(key);
    if (recorded["verdict"].contains(key)) CHECK(value == recorded["verdict"][key]);
  }
}

TEST_CASE("text that is no UTF-8 is signed as it reads back") {
  const Folder folder;
  Store store(folder.path);
  Verdict v = some_verdict("mine");
  v.log = "\xff\xfe broken";
  const Json json = make_receipt(key_of("mine"), v, store.signer(), store.unsigned_because());
  std::string unverified;
  CHECK_NOTHROW(read_receipt(parse_json(json.dump(), "r"), "r", unverified));
}

TEST_CASE("what was put is found, the newest first, and nothing else", "[store]") {
  if (!no_store().empty()) return;
  const Folder folder;
  Store store(folder.path);
  INFO(store.why());
  REQUIRE(store.usable());
  CHECK_FALSE(store.find(key_of("mine")));
  REQUIRE(put(store, "mine"));
  REQUIRE(put(store, "other"));
  REQUIRE(put(store, "mine"));
  Store again(folder.path);
  const auto found = again.find(key_of("mine"));
  REQUIRE(found);
  CHECK(found->verdict.candidate.name == "mine");
  CHECK_FALSE(again.find(key_of("third")));
  const auto rows = again.newest(10);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].candidate == "mine");
  CHECK(rows[1].candidate == "other");
  CHECK(rows[0].id == found->verdict.receipt);
  CHECK(rows[0].status == "wrong");
  CHECK(again.newest(1).size() == 1);
  std::string unverified;
  CHECK(read_receipt(again.receipt(rows[1].id.substr(0, 10)), "r", unverified)
            .verdict.candidate.name == "other");
  CHECK_THROWS_AS(again.receipt("nothing"), Error);
  CHECK_THROWS_AS(again.receipt(""), Error);
  CHECK(again.notes().empty());
}

#if defined(FK_SQLITE)
TEST_CASE("the newest 20,000 verdicts are kept, and older ones are forgotten", "[store]") {
  const Folder folder;
  Store store(folder.path);
  REQUIRE(store.usable());
  for (const char* name : {"first", "second", "third"}) REQUIRE(put(store, name));
  {
    Database db(folder.path / "verdicts.sqlite", 1000);
    db.run("UPDATE verdicts SET number = 20001 WHERE candidate = 'third'");
  }
  REQUIRE(put(store, "fourth"));  // number 20002: the first two are beyond
  CHECK_FALSE(store.find(key_of("first")));
  CHECK_FALSE(store.find(key_of("second")));
  CHECK(store.find(key_of("third")));
  CHECK(store.find(key_of("fourth")));
  CHECK(store.newest(10).size() == 2);
  {
    Database db(folder.path / "verdicts.sqlite", 1000);
    db.run("UPDATE verdicts SET number = 3 WHERE candidate = 'third'");
  }
  REQUIRE(put(store, "fifth"));  // number 20003: the third is just out
  CHECK_FALSE(store.find(key_of("third")));
  CHECK(store.find(key_of("fourth")));
}
#endif

TEST_CASE("a stored verdict that this host did not sign is not believed", "[store]") {
  if (!no_store().empty() || !no_signatures().empty()) return;
  const Folder folder, elsewhere;
  const auto key = key_of("mine");
  {
    Store store(folder.path), other(elsewhere.path);
    REQUIRE(store.put(key, make_receipt(key, some_verdict("mine"), other.signer(), "")));
  }
  Store store(folder.path);
  CHECK_FALSE(store.find(key));
  REQUIRE(store.notes().size() == 1);
  CHECK_THAT(store.notes()[0], ContainsSubstring("was not signed by this host"));
}

TEST_CASE("without its key a host believes no stored verdict, signed or not", "[store]") {
  if (!no_store().empty() || !no_signatures().empty()) return;
  const Folder folder;
  const auto key = key_of("mine");
  REQUIRE(Store(folder.path).signer());
  fs::permissions(folder.path / "signing.key", fs::perms::others_read, fs::perm_options::add);
  Store store(folder.path);
  REQUIRE_FALSE(store.signer());
  REQUIRE(store.put(key, make_receipt(key, some_verdict("mine"), nullptr, "no key")));
  CHECK_FALSE(store.find(key));
}

TEST_CASE("many writers at once lose nothing", "[store]") {
  if (!no_store().empty()) return;
  const Folder folder;
  constexpr int kProcesses = 6, kEach = 8;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // Each opens for itself, the first time of all included.
      Store store(folder.path);
      bool good = store.usable();
      for (int i = 0; i < kEach; ++i)
        good &= put(store, std::to_string(p) + "/" + std::to_string(i));
      ::_exit(good && store.notes().empty() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  Store store(folder.path);
  CHECK(store.newest(1000).size() == kProcesses * kEach);
  for (int p = 0; p < kProcesses; ++p)
    for (int i = 0; i < kEach; ++i)
      CHECK(store.find(key_of(std::to_string(p) + "/" + std::to_string(i))));
}

#if defined(FK_SQLITE)
TEST_CASE("who holds the database or its lock is waited for once", "[store]") {
  const Folder folder, other;
  Store store(folder.path);
  Database held(database(folder), 0);
  held.run("BEGIN IMMEDIATE");
  const auto begin = std::chrono::steady_clock::now();
  for (const char* name : {"one", "two", "three"}) CHECK_FALSE(put(store, name));
  CHECK(store.notes().size() == 1);
  CHECK(store.usable());
  held.run("ROLLBACK");
  CHECK(put(store, "four"));

  const int lock = ::open((database(other).string() + ".lock").c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(::flock(lock, LOCK_EX) == 0);
  CHECK_FALSE(Store(other.path).usable());
  ::close(lock);
  CHECK(Store(other.path).usable());
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(7));
}
#endif

TEST_CASE("a file that is no database is moved aside with a note", "[store]") {
  if (!no_store().empty()) return;
  const Folder folder;
  write_file_atomic(database(folder), std::string(5000, 'x'));
  Store store(folder.path);
  CHECK(store.usable());
  REQUIRE(store.notes().size() == 1);
  CHECK_THAT(store.notes()[0], ContainsSubstring(".broken-"));
  CHECK(put(store, "mine"));
  CHECK(store.find(key_of("mine")));
  int aside = 0;
  for (const auto& entry : fs::directory_iterator(folder.path))
    if (entry.path().string().find(".broken-") != std::string::npos)
      aside += read_file(entry.path()) == std::string(5000, 'x');
  CHECK(aside == 1);
  CHECK(Store(folder.path).notes().empty());
}

#if defined(FK_SQLITE)
TEST_CASE("a database with other tables is moved aside, whatever version it says", "[store]") {
  const Folder folder;
  Database(database(folder), 1000)
      .run("CREATE TABLE verdicts (number INTEGER); PRAGMA user_version=1");
  Store store(folder.path);
  REQUIRE(store.notes().size() == 1);
  CHECK_THAT(store.notes()[0], ContainsSubstring(".broken-"));
  CHECK(put(store, "mine"));
  CHECK(store.find(key_of("mine")));
  CHECK(Store(folder.path).notes().empty());
}
#endif

TEST_CASE("a database that breaks while it is used is replaced", "[store]") {
  if (!no_store().empty()) return;
  const Folder folder;
  {
    Store store(folder.path);
    for (int i = 0; i < 50; ++i) REQUIRE(put(store, std::to_string(i)));
  }
  // Behind the header: everything but that it is a database.
  const auto size = static_cast<size_t>(fs::file_size(database(folder)));
  REQUIRE(size > 8192);
  scribble(database(folder), 100, std::string(size - 100, '\x7f'));
  Store store(folder.path);
  for (int i = 0; i < 3 && store.notes().empty(); ++i) store.find(key_of("1"));
  CHECK(store.usable());
  REQUIRE_FALSE(store.notes().empty());
  CHECK(put(store, "after"));
  CHECK(store.find(key_of("after")));
}

TEST_CASE("a store that cannot be written says so and answers nothing", "[store]") {
  const Folder folder;
  const fs::path file = folder.path / "file";
  write_file_atomic(file, "x");
  Store store(file / "below");
  CHECK_FALSE(store.usable());
  CHECK_FALSE(store.why().empty());
  CHECK_FALSE(store.find(key_of("mine")));
  CHECK_FALSE(put(store, "mine"));
  CHECK(store.newest(3).empty());
  CHECK_THROWS_AS(store.receipt("12"), Error);
  CHECK(store.file_hash(file) == sha256("x"));
  CHECK(store.signer() == nullptr);
  CHECK_FALSE(store.unsigned_because().empty());
}

TEST_CASE("hashes of files follow the files", "[store]") {
  const Folder folder;
  const fs::path file = folder.path / "plugin.so";
  Store store(folder.path / "data");
  for (const char* text : {"one", "two", "six"}) {
    write_file_atomic(file, text);
    CHECK(store.file_hash(file) == sha256(text));
    // In place, same size: only the times differ, and perhaps not even they.
    scribble(file, 0, "abc");
    CHECK(store.file_hash(file) == sha256("abc"));
  }
  CHECK_THROWS_AS(store.file_hash(folder.path / "missing"), Error);
}

#if defined(FK_SQLITE)
TEST_CASE("a file that has not changed is not read again", "[store]") {
  const Folder folder;
  const fs::path file = "/proc/self/exe", real = fs::canonical(file);
  if (std::chrono::file_clock::now() - fs::last_write_time(real) < std::chrono::seconds(5)) return;
  Store store(folder.path);
  CHECK(store.file_hash(real) == sha256_file(real));
  Database(database(folder), 1000).run("UPDATE files SET sha256='remembered'");
  CHECK(store.file_hash(real) == "remembered");
  Database(database(folder), 1000).run("UPDATE files SET stamp='of another day'");
  CHECK(store.file_hash(real) == sha256_file(real));
}

TEST_CASE("the newest 20,000 files are remembered", "[store]") {
  const Folder folder;
  Store store(folder.path);
  const fs::path old = fs::canonical("/bin/sh"), kept = fs::canonical("/bin/cat"),
                 last = fs::canonical("/bin/ls");
  for (const auto& file : {old, kept}) REQUIRE(store.file_hash(file) == sha256_file(file));
  Database db(database(folder), 1000);
  const auto count = [&](const fs::path& file) {
    Statement row(db, "SELECT count(*) FROM files WHERE path=?");
    return row.bind(file.string()).step() ? row.number(0) : -1;
  };
  REQUIRE(count(old) == 1);
  db.run("UPDATE files SET rowid = 20000 WHERE rowid = 2");
  REQUIRE(store.file_hash(last) == sha256_file(last));  // row 20001: the first one is just out
  CHECK(count(old) == 0);
  CHECK(count(kept) == 1);
  CHECK(count(last) == 1);
}
#endif
