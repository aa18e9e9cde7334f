// SPDX-License-Identifier: Apache-2.0
// Messages between a server and its workers, in streams of one database of Redis. The server adds
// tasks to kTasks; a worker of the group kWorkers takes one, and adds its end to kEnds. The task is
// acknowledged by the server alone, when the end is in the queue's file. So a worker or a server
// that dies loses nothing.
#pragma once
#include <cstdint>
#include <string>

#include "core/base/fields.hpp"
#include "core/service/job_queue.hpp"
#include "core/service/remote_program.hpp"

namespace fk {

inline constexpr const char *kTasks = "fk:tasks", *kEnds = "fk:ends", *kWorkers = "workers";
inline constexpr const char* kServerLock = "fk:server";
// The server's RemoteProgram. A worker with another one takes no task.
inline constexpr const char* kServerProgram = "fk:program";
// A hash with a number for each worker, which grows while the worker lives. So clocks need not
// agree.
inline constexpr const char* kAlive = "fk:alive";
inline constexpr const char* kMessageKey = "json";  // the only key of an entry of both streams

struct RemoteTask {
  int64_t number = 0;  // of the job, as of JobQueue::Taken
  std::string id, client, request;
  JobStage stage = JobStage::check;
  bool authors = false;   // as of StageRoom
  RemoteProgram program;  // of the server, which may have changed since
};
template <class Visitor>
void fields(Visitor& v, RemoteTask& t) {
  v("number", t.number);
  v("id", t.id);
  v("client", t.client);
  v("request", t.request);
  v("stage", t.stage);
  v("authors", t.authors);
  v("program", t.program);
}

struct RemoteEnd {
  std::string entry;  // of the task in kTasks
  std::string worker, document, log, why;
  double seconds = 0;
  bool timed = false;     // as of StageEnd
  bool returned = false;  // the worker has not judged it, because it ends or (`why`) it failed
};
template <class Visitor>
void fields(Visitor& v, RemoteEnd& e) {
  v("entry", e.entry);
  v("worker", e.worker);
  v("document", e.document);
  v("log", e.log);
  v("why", e.why);
  v("seconds", e.seconds);
  v("timed", e.timed);
  v("returned", e.returned);
}

// A worker without a sign of life for so long does not count.
inline constexpr double kWorkerSilentS = 15;

}  // namespace fk
