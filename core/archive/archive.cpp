// SPDX-License-Identifier: Apache-2.0
#include "core/archive/archive.hpp"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#if defined(FK_SQLITE)
#include "core/archive/archive_tables.hpp"
#include "core/store/database.hpp"
#endif

namespace fk {

namespace fs = std::filesystem;

fs::path Archive::default_file() { return paths::data_dir() / "archive.sqlite"; }

#if !defined(FK_SQLITE)

struct Archive::State {};
Archive::Archive(const fs::path& file) {
  fail_host(file.string(), "this build has no SQLite, which keeps the archive",
            "install libsqlite3-dev and build again");
}
Archive::Put Archive::put(JudgedProgram) { return {}; }
JudgedProgram Archive::program(const std::string&) { return {}; }
std::vector<ProgramVerdict> Archive::verdicts(const std::string&) { return {}; }
std::vector<std::string> Archive::with_normal(const std::string&, const std::string&,
                                              const std::string&) {
  return {};
}
std::vector<JudgedProgram> Archive::list(const Search&) { return {}; }
std::vector<JudgedProgram> Archive::lineage(const std::string&) { return {}; }
int64_t Archive::prune(int64_t, double) { return 0; }

#else

namespace {

constexpr int kArchivePatienceMs = 20'000;

constexpr const char* kProgramColumns =
    "p.id, p.op, p.family, p.kind, p.language, p.name, p.created, p.normal, p.binary, p.same_as, "
    "p.author, p.features, p.strategy, p.stage, p.predicted, p.tag, p.license, p.island, "
    "v.document";

std::string compact(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ProgramVerdict verdict_of(const std::string& text) {
  return from_fields<ProgramVerdict>(parse_json(text, "archive"), "archive", {});
}

}  // namespace

struct Archive::State {
  fs::path file;
  Database database;

  template <class Action>
  auto with(const Action& action) {
    try {
      return action();
    } catch (const DatabaseError& error) {
      fail_host(file.string(), std::string("the archive cannot be used: ") + error.what());
    }
  }
  std::string text(const char* sql, std::initializer_list<std::string_view> texts) {
    Statement query(database, sql);
    for (const auto text : texts) query.bind(text);
    return query.step() ? query.text(0) : "";
  }
  std::vector<std::string> texts(const char* sql, std::initializer_list<std::string_view> values) {
    Statement query(database, sql);
    for (const auto value : values) query.bind(value);
    std::vector<std::string> out;
    while (query.step()) out.push_back(query.text(0));
    return out;
  }
  void put(const char* sql, std::initializer_list<std::string_view> texts) {
    Statement statement(database, sql);
    for (const auto text : texts) statement.bind(text);
    statement.step();
  }
  JudgedProgram row(const Statement& q) {
    JudgedProgram p;
    p.id = q.text(0), p.op = q.text(1), p.family = q.text(2), p.kind = q.text(3);
    p.language = q.text(4), p.name = q.text(5), p.created = q.text(6);
    p.normal = q.text(7), p.binary = q.text(8), p.same_as = q.text(9);
    p.notes.author = q.text(10);
    p.features = from_fields<Features>(parse_json(q.text(11), "archive"), "archive", {});
    p.notes.strategy = q.text(12), p.notes.stage = q.text(13);
    p.notes.predicted_gain = q.real(14);
    p.notes.tag = q.text(15), p.notes.license = q.text(16);
    p.notes.island = q.number(17);
    if (const auto document = q.text(18); !document.empty()) p.verdict = verdict_of(document);
    p.notes.parents = parents(p.id);
    return p;
  }
  std::vector<std::string> parents(const std::string& id) {
    return texts("SELECT parent FROM parents WHERE program=? ORDER BY place", {id});
  }
  void add(const JudgedProgram& p);
  void judge(const std::string& id, const ProgramVerdict& verdict);
};

Archive::Archive(const fs::path& file) : state_(std::make_unique<State>()) {
  state_->file = file;
  std::error_code code;
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), code);
  state_->with([&] {
    state_->database = Database(file, kArchivePatienceMs);
    prepare_archive(state_->database, file.string());
  });
}

void Archive::State::add(const JudgedProgram& p) {
  Statement insert(database,
                   "INSERT INTO programs(id, op, family, kind, language, name, created, normal, "
                   "binary, same_as, author, features, strategy, stage, predicted, tag, license, "
                   "island) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  insert.bind(p.id).bind(p.op).bind(p.family).bind(p.kind).bind(p.language).bind(p.name);
  insert.bind(p.created).bind(p.normal).bind(p.binary).bind(p.same_as).bind(p.notes.author);
  insert.bind(compact(to_fields(p.features))).bind(p.notes.strategy).bind(p.notes.stage);
  insert.bind(p.notes.predicted_gain).bind(p.notes.tag).bind(p.notes.license);
  insert.bind(p.notes.island).step();
  for (size_t i = 0; i < p.files.size(); ++i) {
    const std::string hash = sha256(p.files[i].text);
    put("INSERT OR IGNORE INTO sources(sha256, text) VALUES(?,?)", {hash, p.files[i].text});
    Statement file_row(database, "INSERT INTO files(program, place, name, sha256) VALUES(?,?,?,?)");
    file_row.bind(p.id).bind(static_cast<int64_t>(i)).bind(p.files[i].name).bind(hash).step();
  }
  for (size_t i = 0; i < p.notes.parents.size(); ++i) {
    Statement parent(database,
                     "INSERT OR IGNORE INTO parents(program, place, parent) VALUES(?,?,?)");
    parent.bind(p.id).bind(static_cast<int64_t>(i)).bind(p.notes.parents[i]).step();
  }
}

// Adds a verdict, and chooses the one that counts. A failure counts until a later verdict is right.
// A right one without times leaves an earlier one with times in place.
void Archive::State::judge(const std::string& id, const ProgramVerdict& verdict) {
  const std::string last =
      text("SELECT document FROM verdicts WHERE program=? ORDER BY number DESC LIMIT 1", {id});
  if (!verdict.receipt.empty()) {
    if (!text("SELECT 1 FROM verdicts WHERE program=? AND receipt=?", {id, verdict.receipt})
             .empty())
      return;
  } else if (!last.empty()) {
    const ProgramVerdict before = verdict_of(last);
    if (before.status == verdict.status && before.why == verdict.why) return;
  }
  Statement insert(database,
                   "INSERT INTO verdicts(program, time, receipt, status, speed, low, high, "
                   "document) VALUES(?,?,?,?,?,?,?,?)");
  insert.bind(id).bind(verdict.time).bind(verdict.receipt).bind(verdict.status);
  insert.bind(verdict.speed).bind(verdict.low).bind(verdict.high);
  insert.bind(compact(to_fields(verdict))).step();
  const int64_t number = sqlite3_last_insert_rowid(database.handle());
  const std::string counted = text(
      "SELECT v.document FROM programs p JOIN verdicts v ON v.number=p.verdict WHERE p.id=?", {id});
  if (!counted.empty()) {
    const ProgramVerdict before = verdict_of(counted);
    if (verdict.status == name_of(Status::environment)) return;
    if (verdict.right() && !verdict.speed && before.right() && before.speed) return;
  }
  Statement counts(database, "UPDATE programs SET verdict=? WHERE id=?");
  counts.bind(number).bind(id).step();
}

Archive::Put Archive::put(JudgedProgram p) {
  return state_->with([&] {
    p.normal = normal_hash(p.files);
    p.id = program_id(p.op, p.kind, p.files);
    if (p.created.empty()) p.created = now_text();
    if (p.verdict.time.empty()) p.verdict.time = p.created;
    Put out{p.id, false, ""};
    Transaction all(state_->database);
    out.fresh = state_->text("SELECT id FROM programs WHERE id=?", {p.id}).empty();
    if (out.fresh) {
      p.same_as = state_->text(
          "SELECT id FROM programs WHERE op=? AND kind=? AND (normal=? OR (binary<>'' AND "
          "binary=?)) ORDER BY number LIMIT 1",
          {p.op, p.kind, p.normal, p.binary});
      state_->add(p);
    } else if (!p.binary.empty()) {
      state_->put("UPDATE programs SET binary=? WHERE id=? AND binary=''", {p.binary, p.id});
    }
    // A later verdict may know more than one without times.
    if (const Json facts = to_fields(p.features); facts.size() > 1)
      state_->put("UPDATE programs SET features=? WHERE id=? AND length(features)<length(?)",
                  {compact(facts), p.id, compact(facts)});
    state_->judge(p.id, p.verdict);
    out.same_as = state_->text("SELECT same_as FROM programs WHERE id=?", {p.id});
    all.commit();
    return out;
  });
}

JudgedProgram Archive::program(const std::string& id) {
  return state_->with([&] {
    std::vector<JudgedProgram> found;
    {
      Statement query(state_->database,
                      std::string("SELECT ") + kProgramColumns +
                          " FROM programs p LEFT JOIN verdicts v ON v.number=p.verdict WHERE "
                          "substr(p.id, 1, ?)=? LIMIT 2");
      query.bind(static_cast<int64_t>(id.size())).bind(id);
      while (query.step()) found.push_back(state_->row(query));
    }
    if (id.empty() || found.size() != 1)
      fail("archive",
           (found.empty() ? "there is no program `" : "there are several programs `") +
               excerpt(id) + "`",
           "fk-host archive best OP lists programs");
    JudgedProgram out = std::move(found[0]);
    Statement files(state_->database,
                    "SELECT f.name, s.text FROM files f JOIN sources s ON s.sha256=f.sha256 WHERE "
                    "f.program=? ORDER BY f.place");
    files.bind(out.id);
    while (files.step()) out.files.push_back({files.text(0), files.text(1)});
    return out;
  });
}

std::vector<ProgramVerdict> Archive::verdicts(const std::string& id) {
  return state_->with([&] {
    std::vector<ProgramVerdict> out;
    for (const auto& text :
         state_->texts("SELECT document FROM verdicts WHERE program=? ORDER BY number", {id}))
      out.push_back(verdict_of(text));
    return out;
  });
}

std::vector<std::string> Archive::with_normal(const std::string& op, const std::string& kind,
                                              const std::string& normal) {
  return state_->with([&] {
    return state_->texts(
        "SELECT id FROM programs WHERE op=? AND kind=? AND normal=? ORDER BY number",
        {op, kind, normal});
  });
}

std::vector<JudgedProgram> Archive::list(const Search& search) {
  return state_->with([&] {
    Statement query(state_->database,
                    std::string("SELECT ") + kProgramColumns +
                        " FROM programs p LEFT JOIN verdicts v ON v.number=p.verdict WHERE (?='' "
                        "OR p.op=?) AND (?='' OR p.kind=?) AND (?='' OR p.author=?) AND (?=1 OR "
                        "p.same_as='') ORDER BY p.number");
    for (const auto* text : {&search.op, &search.kind, &search.author})
      query.bind(*text).bind(*text);
    query.bind(int64_t{search.duplicates});
    std::vector<JudgedProgram> out;
    while (query.step()) {
      JudgedProgram one = state_->row(query);
      if (one.verdict.right() || !search.right) out.push_back(std::move(one));
    }
    const auto rank = [](const JudgedProgram& p) {
      const bool right = p.verdict.right();
      return std::pair(right && p.verdict.low ? 0 : right ? 1 : 2, -p.verdict.low.value_or(0));
    };
    std::ranges::stable_sort(
        out, [&](const JudgedProgram& a, const JudgedProgram& b) { return rank(a) < rank(b); });
    return out;
  });
}

std::vector<JudgedProgram> Archive::lineage(const std::string& id) {
  std::vector<JudgedProgram> out = {program(id)};
  std::set<std::string> seen = {out[0].id};
  for (size_t i = 0; i < out.size(); ++i) {  // grows
    const std::vector<std::string> parents = out[i].notes.parents;
    for (const auto& parent : parents) {
      const bool known = state_->with(
          [&] { return !state_->text("SELECT id FROM programs WHERE id=?", {parent}).empty(); });
      if (known && seen.insert(parent).second) out.push_back(program(parent));
    }
  }
  return out;
}

int64_t Archive::prune(int64_t keep, double days) {
  Search all;
  all.duplicates = true;
  const std::vector<JudgedProgram> programs = list(all);
  std::map<std::string, const JudgedProgram*> by_id;
  for (const auto& p : programs) by_id[p.id] = &p;
  char since[32] = "";
  const std::time_t at = std::time(nullptr) - static_cast<std::time_t>(days * 86400);
  std::tm utc{};
  ::gmtime_r(&at, &utc);
  (void)std::strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc);
  std::set<std::string> kept;
  std::vector<std::string> ancestors;
  std::map<std::string, int64_t> counts;
  for (const auto& p : programs)
    if ((days > 0 && p.created >= since) ||
        (p.verdict.right() && p.same_as.empty() && counts[p.op + " " + p.kind]++ < keep))
      ancestors.push_back(p.id);
  for (size_t i = 0; i < ancestors.size(); ++i) {  // grows
    const auto found = by_id.find(ancestors[i]);
    if (found == by_id.end() || !kept.insert(ancestors[i]).second) continue;
    const auto& parents = found->second->notes.parents;
    ancestors.insert(ancestors.end(), parents.begin(), parents.end());
  }
  return state_->with([&] {
    int64_t removed = 0;
    Transaction together(state_->database);
    for (const auto& p : programs) {
      if (kept.contains(p.id)) continue;
      for (const char* sql :
           {"DELETE FROM verdicts WHERE program=?", "DELETE FROM parents WHERE program=?",
            "DELETE FROM files WHERE program=?", "DELETE FROM programs WHERE id=?"})
        state_->put(sql, {p.id});
      ++removed;
    }
    state_->database.run(
        "UPDATE programs SET same_as='' WHERE same_as<>'' AND same_as NOT IN (SELECT id FROM "
        "programs);"
        "DELETE FROM sources WHERE sha256 NOT IN (SELECT sha256 FROM files)");
    together.commit();
    return removed;
  });
}

#endif

Archive::Archive(Archive&&) noexcept = default;
Archive::~Archive() = default;

}  // namespace fk
