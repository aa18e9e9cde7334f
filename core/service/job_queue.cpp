// SPDX-License-Identifier: Apache-2.0
#include "core/service/job_queue.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#if defined(FK_SQLITE)
#include "core/store/database.hpp"
#endif

namespace fk {

namespace fs = std::filesystem;

std::string job_id(const std::string& client, const std::string& request) {
  return sha256(sha256(client) + request);
}

#if !defined(FK_SQLITE)

struct JobQueue::State {};
JobQueue::JobQueue(const fs::path& folder) {
  fail_host(folder.string(), "this build has no SQLite, which keeps the queue",
            "install libsqlite3-dev and build again");
}
JobQueue::~JobQueue() = default;
JobQueue::Added JobQueue::add(const std::string&, const std::string&, const std::string&,
                              const QueueLimits&) {
  return {};
}
std::optional<JobQueue::Taken> JobQueue::take(const std::string&, JobStage) { return std::nullopt; }
bool JobQueue::to_timing(int64_t) { return false; }
void JobQueue::put_back(int64_t) {}
bool JobQueue::adopt(int64_t, const std::string&, JobStage) { return false; }
bool JobQueue::runs(int64_t) { return false; }
void JobQueue::on_device(int64_t, const std::string&) {}
bool JobQueue::again(int64_t) { return false; }
bool JobQueue::finish(int64_t, const std::string&, const std::string&, const std::string&,
                      const std::string&, double) {
  return false;
}
bool JobQueue::cancel(const std::string&) { return false; }
std::optional<ServiceJob> JobQueue::find(const std::string&, const std::string&) {
  return std::nullopt;
}
std::vector<ServiceJob> JobQueue::list(const std::string&, int64_t, int64_t) { return {}; }
std::string JobQueue::document(const std::string&) { return {}; }
std::string JobQueue::log(const std::string&) { return {}; }
JobQueue::Counts JobQueue::counts() { return {}; }

#else

namespace {

constexpr int kPatienceMs = 10'000;
constexpr int64_t kVersion = 3;  // PRAGMA user_version of the tables below

// `turn` of a client grows with each of its checks, `time_turn` with each of its timings. `number`
// orders jobs by arrival.
constexpr const char* kTables = R"(
CREATE TABLE jobs(number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  client TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL, request TEXT NOT NULL,
  bytes INTEGER NOT NULL, starts INTEGER NOT NULL DEFAULT 0, status TEXT NOT NULL DEFAULT '',
  why TEXT NOT NULL DEFAULT '', device TEXT NOT NULL DEFAULT '', document TEXT NOT NULL DEFAULT '',
  log TEXT NOT NULL DEFAULT '', submitted TEXT NOT NULL, started TEXT NOT NULL DEFAULT '',
  ended TEXT NOT NULL DEFAULT '');
CREATE INDEX jobs_by_state ON jobs(state, client, number);
CREATE INDEX jobs_by_client ON jobs(client, number);
CREATE TABLE clients(client TEXT PRIMARY KEY, turn INTEGER NOT NULL DEFAULT 0,
  ended INTEGER NOT NULL DEFAULT 0);
CREATE TABLE statuses(status TEXT PRIMARY KEY, ended INTEGER NOT NULL, milliseconds INTEGER NOT NULL);
)";
constexpr const char* kStagesOfJobs = R"(
ALTER TABLE jobs ADD COLUMN stage TEXT NOT NULL DEFAULT 'check';
ALTER TABLE clients ADD COLUMN time_turn INTEGER NOT NULL DEFAULT 0;
DROP INDEX jobs_by_state;
CREATE INDEX jobs_by_stage ON jobs(state, stage, client, number);
)";
// Long texts in rows of their own, so that nobody reads them who asks for states.
constexpr const char* kTextsOfJobs = R"(
CREATE TABLE texts(number INTEGER PRIMARY KEY, request TEXT NOT NULL DEFAULT '',
  document TEXT NOT NULL DEFAULT '', log TEXT NOT NULL DEFAULT '');
INSERT INTO texts SELECT number, request, document, log FROM jobs;
ALTER TABLE jobs DROP COLUMN request;
ALTER TABLE jobs DROP COLUMN document;
ALTER TABLE jobs DROP COLUMN log;
DROP INDEX jobs_by_stage;
CREATE INDEX jobs_by_stage ON jobs(state, stage, client, number, bytes);
CREATE TRIGGER job_ends AFTER UPDATE OF state ON jobs
  WHEN new.state IN ('done', 'failed', 'cancelled')
  BEGIN UPDATE texts SET request='' WHERE number=new.number; END;
CREATE TRIGGER job_goes AFTER DELETE ON jobs
  BEGIN DELETE FROM texts WHERE number=old.number; END;
)";

constexpr const char* kColumns =
    "id, client, name, state, status, why, device, submitted, started, ended, starts, number, "
    "stage";

JobState state_of(const std::string& name) {
  for (const auto& [state, text] : kJobStates)
    if (name == text) return state;
  return JobState::failed;
}

JobStage stage_of(const std::string& name) {
  return name == kJobStages[1].second ? JobStage::time : JobStage::check;
}

// SQL of a stage, where $STAGE is its name and $TURN the column of the clients' turns.
std::string sql_of(JobStage stage, std::string sql) {
  const bool time = stage == JobStage::time;
  for (const auto& [name, text] :
       {std::pair<std::string, std::string>{"$STAGE", time ? "'time'" : "'check'"},
        {"$TURN", time ? "time_turn" : "turn"}})
    for (size_t at = 0; (at = sql.find(name, at)) != sql.npos;) sql.replace(at, name.size(), text);
  return sql;
}

}  // namespace

struct JobQueue::State {
  std::mutex mutex;
  fs::path file;
  Database database;
  int lock = -1;
  ~State() {
    database.close();
    if (lock >= 0) ::close(lock);
  }

  // Runs an action alone, with HostError for a failure of the file.
  template <class Action>
  auto alone(const Action& action) {
    const std::lock_guard guard(mutex);
    try {
      return action();
    } catch (const DatabaseError& error) {
      fail_host(file.string(), std::string("the queue cannot be used: ") + error.what());
    }
  }
  std::string text(const char* sql, const std::string& id) {
    Statement query(database, sql);
    query.bind(id);
    return query.step() ? query.text(0) : "";
  }
  void put(const char* sql, std::initializer_list<std::string_view> texts) {
    Statement statement(database, sql);
    for (const auto text : texts) statement.bind(text);
    statement.step();
  }
  // Changes a job with this number. False when there is none, in the state which the SQL asks for.
  bool changes(const std::string& sql, int64_t number, const std::string& first = "") {
    Statement statement(database, sql);
    if (!first.empty()) statement.bind(first);
    statement.bind(number).step();
    return sqlite3_changes(database.handle()) > 0;
  }
  ServiceJob row(const Statement& query) {
    ServiceJob job;
    job.id = query.text(0), job.client = query.text(1), job.name = query.text(2);
    job.state = state_of(query.text(3));
    job.status = query.text(4), job.why = query.text(5), job.device = query.text(6);
    job.submitted = query.text(7), job.started = query.text(8), job.ended = query.text(9);
    job.starts = query.number(10), job.number = query.number(11);
    job.stage = stage_of(query.text(12));
    if (job.state == JobState::queued) job.place = place(job.stage, job.client, job.number);
    return job;
  }
  // The place of a job that waits in a stage where clients take turns. Its own client's earlier
  // jobs come first, and as many of each other client. One more comes of a client whose turn is
  // earlier.
  int64_t place(JobStage stage, const std::string& client, int64_t number) {
    Statement own(database, sql_of(stage,
                                   "SELECT count(*) FROM jobs WHERE state='queued' AND "
                                   "stage=$STAGE AND client=? AND number<?"));
    own.bind(client).bind(number);
    own.step();
    const int64_t before = own.number(0);
    int64_t out = before + 1;
    Statement others(
        database,
        sql_of(stage,
               "SELECT count(*), (c.$TURN, c.client) < (SELECT $TURN, client FROM clients WHERE "
               "client=?) FROM jobs j JOIN clients c ON c.client=j.client WHERE j.state='queued' "
               "AND j.stage=$STAGE AND j.client<>? GROUP BY j.client"));
    others.bind(client).bind(client);
    while (others.step()) out += std::min(others.number(0), before + others.number(1));
    return out;
  }
};

JobQueue::JobQueue(const fs::path& folder) : state_(std::make_unique<State>()) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) fail_host(folder.string(), "cannot be created: " + code.message());
  fs::permissions(folder, fs::perms::owner_all, code);
  const fs::path lock = folder / "queue.lock";
  state_->lock = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (state_->lock < 0) fail_host(lock.string(), "cannot be written: " + errno_text());
  if (::flock(state_->lock, LOCK_EX | LOCK_NB) != 0)
    fail_host(folder.string(), "another server has this queue",
              "end it, or name another folder with --queue");
  state_->file = folder / "queue.sqlite";
  state_->alone([&] {
    Database& db = state_->database;
    db = Database(state_->file, kPatienceMs);
    db.run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL");
    int64_t found = 0;
    {  // an open statement would lock the tables
      Statement version(db, "PRAGMA user_version");
      version.step();
      found = version.number(0);
    }
    if (found > kVersion)
      fail_host(state_->file.string(), "a newer fk-host made this queue", "use that one");
    Transaction all(db);
    if (found == 0) db.run(kTables);
    if (found < 2) db.run(kStagesOfJobs);
    if (found < kVersion)
      db.run(kTextsOfJobs + ("PRAGMA user_version=" + std::to_string(kVersion)));
    const std::string most = std::to_string(kStartsMost);
    // They have ended: counts and clients know it, as of finish().
    const std::string over = " WHERE state='running' AND starts>=" + most;
    db.run("UPDATE clients SET ended=ended+(SELECT count(*) FROM jobs" + over +
           " AND jobs.client=clients.client)");
    db.run("INSERT INTO statuses SELECT 'failed', count(*), 0 FROM jobs" + over +
           " GROUP BY state ON CONFLICT(status) DO UPDATE SET ended=ended+excluded.ended");
    db.run("UPDATE jobs SET state='failed', ended='" + now_text() + "', why='the server ended " +
           most + " times while it ran'" + over);
    db.run("UPDATE jobs SET state='queued' WHERE state='running'");
    all.commit();
  });
}
JobQueue::~JobQueue() = default;

JobQueue::Added JobQueue::add(const std::string& client, const std::string& name,
                              const std::string& request, const QueueLimits& limits) {
  return state_->alone([&]() -> Added {
    const std::string id = job_id(client, request);
    const std::string state = state_->text("SELECT state FROM jobs WHERE id=?", id);
    const bool again = state == "failed" || state == "cancelled";
    if (!state.empty() && !again) return {id, false, false};
    Statement held(state_->database,
                   "SELECT count(*), coalesce(sum(bytes), 0) FROM jobs WHERE client=? AND state IN "
                   "('queued', 'running') AND stage IN ('check', 'time')");
    held.bind(client);
    held.step();
    const auto bytes = static_cast<int64_t>(request.size());
    if (held.number(0) >= limits.jobs || held.number(1) + bytes > limits.bytes)
      return {id, false, true};
    Transaction all(state_->database);
    if (again) state_->put("DELETE FROM jobs WHERE id=?", {id});
    // A new client's first turn is now, and not before everybody who waits.
    state_->put(
        "INSERT OR IGNORE INTO clients(client, turn, time_turn) SELECT ?, coalesce(min(turn), 0), "
        "coalesce(min(time_turn), 0) FROM clients",
        {client});
    Statement put(state_->database,
                  "INSERT INTO jobs(id, client, name, state, bytes, submitted) VALUES(?, ?, ?, "
                  "'queued', ?, ?)");
    put.bind(id).bind(client).bind(name).bind(bytes).bind(now_text());
    put.step();
    state_->put("INSERT INTO texts(number, request) VALUES(last_insert_rowid(), ?)", {request});
    all.commit();
    return {id, true, false};
  });
}

std::optional<JobQueue::Taken> JobQueue::take(const std::string& device, JobStage stage) {
  return state_->alone([&]() -> std::optional<Taken> {
    Transaction all(state_->database);
    Taken out;
    {
      Statement next(
          state_->database,
          sql_of(stage,
                 "SELECT number, id, name, request, client FROM jobs JOIN texts USING(number) "
                 "WHERE number=(SELECT j.number FROM jobs j JOIN clients c ON c.client=j.client "
                 "WHERE j.state='queued' AND j.stage=$STAGE ORDER BY c.$TURN, c.client, j.number "
                 "LIMIT 1)"));
      if (!next.step()) return std::nullopt;
      out = {next.number(0), next.text(1), next.text(2), next.text(3), next.text(4)};
    }
    state_->put(
        "UPDATE jobs SET state='running', starts=starts+1, device=?, started=?, why='' WHERE id=?",
        {device, now_text(), out.id});
    state_->put(
        sql_of(stage, "UPDATE clients SET $TURN=(SELECT max($TURN) FROM clients)+1 WHERE client=?")
            .c_str(),
        {out.client});
    all.commit();
    return out;
  });
}

bool JobQueue::to_timing(int64_t number) {
  return state_->alone([&] {
    return state_->changes(
        "UPDATE jobs SET state='queued', stage='time', starts=0 WHERE number=? AND state='running'",
        number);
  });
}

void JobQueue::put_back(int64_t number) {
  state_->alone([&] {
    state_->changes(
        "UPDATE jobs SET state='queued', starts=starts-1 WHERE number=? AND state='running'",
        number);
  });
}

bool JobQueue::adopt(int64_t number, const std::string& id, JobStage stage) {
  return state_->alone([&] {
    return state_->changes(sql_of(stage,
                                  "UPDATE jobs SET state='running' WHERE id=? AND number=? AND "
                                  "state='queued' AND stage=$STAGE"),
                           number, id);
  });
}

bool JobQueue::runs(int64_t number) {
  return state_->alone([&] {
    Statement query(state_->database, "SELECT 1 FROM jobs WHERE number=? AND state='running'");
    return query.bind(number).step();
  });
}

void JobQueue::on_device(int64_t number, const std::string& device) {
  state_->alone([&] {
    state_->changes("UPDATE jobs SET device=? WHERE number=? AND state='running'", number, device);
  });
}

bool JobQueue::again(int64_t number) {
  return state_->alone([&] {
    return state_->changes(
        "UPDATE jobs SET state='queued' WHERE number=? AND state='running' AND starts<" +
            std::to_string(kStartsMost),
        number);
  });
}

bool JobQueue::finish(int64_t number, const std::string& status, const std::string& document,
                      const std::string& log, const std::string& why, double seconds) {
  return state_->alone([&] {
    const std::string counted = document.empty() ? "failed" : status;
    Transaction all(state_->database);
    Statement end(state_->database,
                  "UPDATE jobs SET state=?, status=?, why=?, ended=? WHERE number=? AND "
                  "state='running'");
    end.bind(document.empty() ? "failed" : "done").bind(status).bind(why).bind(now_text());
    end.bind(number).step();
    if (sqlite3_changes(state_->database.handle()) == 0) return false;
    Statement texts(state_->database, "UPDATE texts SET document=?, log=? WHERE number=?");
    texts.bind(document).bind(log).bind(number).step();
    Statement client(state_->database,
                     "UPDATE clients SET ended=ended+1 WHERE client=(SELECT client FROM jobs WHERE "
                     "number=?)");
    client.bind(number).step();
    Statement count(state_->database,
                    "INSERT INTO statuses VALUES(?, 1, ?) ON CONFLICT(status) DO UPDATE SET "
                    "ended=ended+1, milliseconds=milliseconds+excluded.milliseconds");
    count.bind(counted).bind(static_cast<int64_t>(seconds * 1e3));
    count.step();
    Statement forget(state_->database,
                     "DELETE FROM jobs WHERE number IN (SELECT number FROM jobs WHERE "
                     "client=(SELECT client FROM jobs WHERE number=?) AND state IN ('done', "
                     "'failed', 'cancelled') AND stage IN ('check', 'time') ORDER BY number DESC "
                     "LIMIT -1 OFFSET ?)");
    forget.bind(number).bind(kEndedMost);
    forget.step();
    all.commit();
    return true;
  });
}

bool JobQueue::cancel(const std::string& id) {
  return state_->alone([&] {
    state_->put(
        "UPDATE jobs SET state='cancelled', ended=? WHERE id=? AND state IN ('queued', 'running')",
        {now_text(), id});
    return sqlite3_changes(state_->database.handle()) > 0;
  });
}

std::optional<ServiceJob> JobQueue::find(const std::string& id, const std::string& client) {
  return state_->alone([&]() -> std::optional<ServiceJob> {
    Statement query(state_->database,
                    std::string("SELECT ") + kColumns + " FROM jobs WHERE id=? AND client=?");
    query.bind(id).bind(client);
    if (!query.step()) return std::nullopt;
    return state_->row(query);
  });
}

std::vector<ServiceJob> JobQueue::list(const std::string& client, int64_t most, int64_t skip) {
  return state_->alone([&] {
    Statement query(state_->database, std::string("SELECT ") + kColumns +
                                          " FROM jobs WHERE client=? ORDER BY number DESC LIMIT ? "
                                          "OFFSET ?");
    query.bind(client).bind(most).bind(skip);
    std::vector<ServiceJob> out;
    while (query.step()) out.push_back(state_->row(query));
    return out;
  });
}

std::string JobQueue::document(const std::string& id) {
  return state_->alone([&] {
    return state_->text("SELECT document FROM texts JOIN jobs USING(number) WHERE id=?", id);
  });
}

std::string JobQueue::log(const std::string& id) {
  return state_->alone(
      [&] { return state_->text("SELECT log FROM texts JOIN jobs USING(number) WHERE id=?", id); });
}

JobQueue::Counts JobQueue::counts() {
  return state_->alone([&] {
    Counts out;
    for (const auto& [state, name] : kJobStates) out.states[name] = 0;
    Statement states(state_->database, "SELECT state, count(*) FROM jobs GROUP BY state");
    while (states.step()) out.states[states.text(0)] = states.number(1);
    for (const auto& [stage, name] : kJobStages) out.waiting[name] = 0;
    Statement stages(state_->database,
                     "SELECT stage, count(*) FROM jobs WHERE state='queued' GROUP BY stage");
    while (stages.step()) out.waiting[stages.text(0)] = stages.number(1);
    Statement statuses(state_->database, "SELECT status, ended, milliseconds FROM statuses");
    while (statuses.step()) {
      out.statuses[statuses.text(0)] = statuses.number(1);
      out.ended += statuses.number(1);
      out.seconds += static_cast<double>(statuses.number(2)) * 1e-3;
    }
    Statement late(state_->database,
                   "SELECT count(*), coalesce(sum(ended>=strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-1 "
                   "minute')), 0) FROM jobs WHERE state IN ('done', 'failed') AND "
                   "ended>=strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-1 hour')");
    if (late.step()) out.ended_hour = late.number(0), out.ended_minute = late.number(1);
    Statement clients(state_->database,
                      "SELECT c.client, (SELECT count(*) FROM jobs WHERE client=c.client AND "
                      "state='queued'), (SELECT count(*) FROM jobs WHERE client=c.client AND "
                      "state='running'), c.ended FROM clients c ORDER BY c.turn DESC LIMIT 100");
    while (clients.step())
      out.clients.push_back(
          {clients.text(0), clients.number(1), clients.number(2), clients.number(3)});
    return out;
  });
}

#endif

}  // namespace fk
