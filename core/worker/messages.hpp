// SPDX-License-Identifier: Apache-2.0
// The messages from the controller to a worker process, with their answers. An answer comes as
// {"result": ...}, a failure as {"error": ...}, and news before the answer as {"progress": ...}.
// The process is not trusted once it has loaded a candidate: its answers are read with
// kForeignMessage.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/handlers.hpp"
#include "core/exec/recorder.hpp"
#include "core/worker/sandbox.hpp"
#include "core/worker/spec.hpp"

namespace fk {

template <class Visitor>
void fields(Visitor& v, RecordOptions& o) {
  v("ops", o.ops);
  v("values", o.values);
  v("cases_max", o.cases_max);
  v("bytes_max", o.bytes_max);
  v("tensor_bytes_max", o.tensor_bytes_max);
  v("timed_steps", o.timed_steps);
}

namespace messages {

inline constexpr const char* kResult = "result";
inline constexpr const char* kError = "error";
inline constexpr const char* kProgress = "progress";
// Sent at the end of a drive, without a question; the value is Drive::run.
inline constexpr const char* kDriven = "driven";

// The reason why there is no answer.
struct WorkerError {
  std::string kind, where, text;
  double waited_s = 0;  // of a lost device: seconds that the process waited for it
  FK_FIELDS(kind, where, text, waited_s)
};

// The first message. Five descriptors come with it: the shared memory (board.hpp), and two events
// for each ring.
struct Hello {
  static constexpr const char* kName = "hello";
  using Answer = Nothing;
  int64_t private_bytes_max = 0;  // 0: no limit
  bool own_user = false;          // it becomes a user without other processes at once
  double spin_s = 0;              // seconds of polling for a message before it sleeps
  FK_FIELDS(private_bytes_max, own_user, spin_s)
};

// The process is one of several ranks from now on. The ranks' shared block comes with it, and a
// socket to each other rank where they need one.
struct Join {
  static constexpr const char* kName = "join";
  using Answer = Nothing;
  RankSeat seat;
  double patience_s = 0;
  FK_FIELDS(seat, patience_s)
};

// Loads plugins; the process seals itself before it loads a candidate.
struct Load {
  struct File {
    std::string path;
    std::string copy;   // the copy to load; empty: none could be made
    std::string error;  // why it is not loaded; empty: it is
    Trust trust = Trust::baseline;
    FK_FIELDS(path, copy, error, trust)
  };
  static constexpr const char* kName = "load";
  using Answer = Loaded;
  std::vector<File> plugins;
  bool sandbox = true;
  std::string device;
  std::vector<std::string> read;  // files and folders that it still reads when it is sealed
  FK_FIELDS(plugins, sandbox, device, read)
};

// News of a load, before a candidate's code runs.
struct Sealed {
  std::vector<Protection> sealed;
  FK_FIELDS(sealed)
};

// `states` is the memory of a session's caches; another process may share it (spec.hpp).
struct Opened {
  SessionInfo session;
  int64_t states_bytes = 0;  // the descriptor comes with the answer; 0: there are none
  FK_FIELDS(session, states_bytes)
};

// Opens a session. The descriptor of the weights comes with the message, and that of another
// worker's states where there are some.
struct Open {
  static constexpr const char* kName = "open";
  using Answer = Opened;
  std::string name;
  SessionSpec spec;
  int64_t weights_bytes = 0;
  bool weights_on_device = false;
  int64_t states_bytes = 0;  // 0: the session makes its own
  FK_FIELDS(name, spec, weights_bytes, weights_on_device, states_bytes)
};

// The weights that Keep has made; their descriptor comes with the answer.
struct Kept {
  int64_t bytes = 0;
  bool on_device = true;
  FK_FIELDS(bytes, on_device)
};

// A process without plugins makes a session's weights on its device, for other processes to read.
struct Keep {
  static constexpr const char* kName = "keep";
  using Answer = Kept;
  SessionSpec spec;
  uint64_t seed = 0;
  std::string checkpoint;  // a folder; empty: from the seed
  int local_rank = 0;
  FK_FIELDS(spec, seed, checkpoint, local_rank)
};

// News of a Keep: bytes made so far.
struct BytesDone {
  int64_t done = 0, total = 0;
  FK_FIELDS(done, total)
};

struct Checksum : Nothing {
  static constexpr const char* kName = "checksum";
  using Answer = uint64_t;
};
// Sets the states of the session to zero.
struct Clear : Nothing {
  static constexpr const char* kName = "clear";
  using Answer = Nothing;
};
struct CloseSession : Nothing {
  static constexpr const char* kName = "close_session";
  using Answer = Nothing;
};

// Begins a drive: the session's engine runs the requests of the ring, until the controller closes
// them. With `taps` it also returns intermediate tensors.
struct Drive {
  static constexpr const char* kName = "drive";
  using Answer = int64_t;  // the same number
  bool taps = false;
  int64_t run = 0;
  FK_FIELDS(taps, run)
};

// Records the inputs of the session's nodes from now on, into the file that comes with the message.
// Without a file, the message names the workload that follows.
struct Record {
  static constexpr const char* kName = "record";
  using Answer = Nothing;
  RecordOptions options;
  std::string workload;
  FK_FIELDS(options, workload)
};
struct Recorded : Nothing {
  static constexpr const char* kName = "recorded";
  using Answer = Recording;
};

// Runs a task, which is a named piece of work (task.hpp).
struct Perform {
  static constexpr const char* kName = "task";
  using Answer = Json;  // the task's own
  std::string name;
  Json arguments;
  uint64_t number = 0;  // the task's number, for Board::sign and Board::done
  FK_FIELDS(name, arguments, number)
};

}  // namespace messages
}  // namespace fk
