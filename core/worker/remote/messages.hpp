// SPDX-License-Identifier: Apache-2.0
// The messages between the controller and the leaders of other machines. A leader's words are
// checked and cleaned as a worker's are.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/worker/runner.hpp"

namespace fk {

// All options except those without a meaning on another machine: the starter of the process and the
// callbacks.
template <class Visitor>
void fields(Visitor& v, Runner::Options& o) {
  v("name", o.name);
  v("private_bytes_max", o.private_bytes_max);
  v("patience_s", o.patience_s);
  v("open_patience_s", o.open_patience_s);
  v("payload_bytes_max", o.payload_bytes_max);
  v("sends_fds", o.sends_fds);
  v("sandbox", o.sandbox);
  v("device", o.device);
  v("read", o.read);
  v("early_user", o.early_user);
}

template <class Visitor>
void fields(Visitor& v, RunnerFailure& f) {
  v("kind", f.kind);
  v("where", f.where);
  v("text", f.text);
  v("log", f.log);
  v("next", f.next);
}

// The output of a process may be longer than other texts.
inline constexpr Reading kForeignLog{
    .complete = true, .text_bytes_max = std::size_t{80} << 10, .foreign = true, .kept = "\n\t"};
// Error when it is malformed; an unknown kind becomes `protocol`.
RunnerFailure runner_failure_from(const Json& json);

namespace messages {

// ---- between the controller and a leader, for the whole run ----

// The first message of a leader; `program` is the build of its fk-host.
struct LeaderHello {
  std::vector<int> ranks;
  int size = 0;
  std::string host, program;
  FK_FIELDS(ranks, size, host, program)
};

// The controller's answer to LeaderHello.
struct Welcome {
  std::string refused;  // why not; empty: it is welcome
  FK_FIELDS(refused)
};

// Opens a worker, with a connection of its own.
struct OpenRunner {
  static constexpr const char* kName = "runner";
  using Answer = Nothing;
  uint64_t open = 0;  // the number of its connection
  Runner::Options runner;
  int rank = 0;
  uint64_t block = 0;  // the number of the ranks' block
  FK_FIELDS(open, runner, rank, block)
};

// Makes a rank's weights, with a connection of their own.
struct OpenWeights {
  static constexpr const char* kName = "weights";
  using Answer = Nothing;
  Keep weights;
  uint64_t open = 0;
  FK_FIELDS(weights, open)
};

// Opens a copy of the ranks' block, which a connection of its own keeps equal.
struct OpenBlock {
  static constexpr const char* kName = "block";
  using Answer = Nothing;
  int ranks = 0;
  uint64_t open = 0;
  FK_FIELDS(ranks, open)
};

// Closes the copy of a block.
struct Drop {
  static constexpr const char* kName = "drop";
  using Answer = Nothing;
  uint64_t block = 0;
  FK_FIELDS(block)
};

// The leader sends it back unchanged, as a sign of life.
struct Lives : Nothing {
  static constexpr const char* kName = "lives";
  using Answer = Nothing;
};

// ---- about weights, on their connection; `error`: why there are none ----

struct WeightsMade {
  int64_t bytes = 0;
  std::string error;
  FK_FIELDS(bytes, error)
};
struct WeightsStart : Nothing {
  static constexpr const char* kName = "start";
  using Answer = WeightsMade;
};

struct WeightsSum {
  uint64_t sum = 0;
  std::string error;
  FK_FIELDS(sum, error)
};
struct WeightsChecksum : Nothing {
  static constexpr const char* kName = "checksum";
  using Answer = WeightsSum;
};

// ---- about a worker, on its connection: messages of messages.hpp, and these ----

// The answer comes when the worker has answered Hello.
struct Start : Nothing {
  static constexpr const char* kName = "start";
  using Answer = Nothing;
};

// A plugin's file; `sha256` is empty if rank 0 cannot read it.
struct FileOnAll {
  std::string path, sha256;
  Trust trust = Trust::baseline;
  FK_FIELDS(path, sha256, trust)
};
struct LoadFiles {
  static constexpr const char* kName = "load";
  using Answer = Loaded;
  std::vector<FileOnAll> plugins;
  FK_FIELDS(plugins)
};

struct OpenRemote {
  static constexpr const char* kName = "open";
  using Answer = Opened;
  SessionSpec spec;
  uint64_t weights = 0, states = 0;  // their numbers; no states: 0
  FK_FIELDS(spec, weights, states)
};

struct Freeze : Nothing {
  static constexpr const char* kName = "freeze";
  using Answer = bool;
};
struct BeginFreeze : Nothing {
  static constexpr const char* kName = "begin_freeze";
  using Answer = Nothing;
};
struct Thaw : Nothing {
  static constexpr const char* kName = "thaw";
  using Answer = Nothing;
};

// A drive. It begins when the leader has its last request.
struct Begin {
  static constexpr const char* kName = "begin";
  using Answer = Nothing;
  bool taps = false;
  FK_FIELDS(taps)
};
struct Submit {
  static constexpr const char* kName = "submit";
  using Answer = Nothing;
  uint64_t id = 0;
  std::string request;  // encode_request(), in hex
  FK_FIELDS(id, request)
};
struct CloseRequests : Nothing {
  static constexpr const char* kName = "close";
  using Answer = Nothing;
};

struct HeldBytes : Nothing {
  static constexpr const char* kName = "held_bytes";
  using Answer = int64_t;
};
struct Log : Nothing {
  static constexpr const char* kName = "log";
  using Answer = std::string;
};
struct Dismiss : Nothing {
  static constexpr const char* kName = "dismiss";
  using Answer = Nothing;
};
struct Condemn {
  static constexpr const char* kName = "condemn";
  using Answer = Nothing;
  std::string kind, text;
  FK_FIELDS(kind, text)
};
struct WaitForEnd {
  static constexpr const char* kName = "wait_for_end";
  using Answer = bool;
  double seconds = 0;
  FK_FIELDS(seconds)
};
struct SetPatience {
  static constexpr const char* kName = "set_patience";
  using Answer = Nothing;
  double seconds = 0;
  FK_FIELDS(seconds)
};
struct SetOpenPatience {
  static constexpr const char* kName = "set_open_patience";
  using Answer = Nothing;
  double seconds = 0;
  FK_FIELDS(seconds)
};
// The leader reads it at once, even while the worker works on a question.
struct AnotherFailed {
  static constexpr const char* kName = "another_failed";
  using Answer = Nothing;
  double stop_s = 0;
  FK_FIELDS(stop_s)
};

// News of a worker, which a leader sends unasked; each key may be missing.
struct Token {
  uint64_t id = 0;
  int64_t index = 0, token = 0;
  FK_FIELDS(id, index, token)
};
struct News {
  std::optional<RunnerFailure> failure = {};
  std::optional<Json> progress = {};
  std::vector<Token> tokens = {};  // of a drive
  bool driven = false;             // the drive has ended
};
template <class Visitor>
void fields(Visitor& v, News& n) {
  v.optional("failure", n.failure, n.failure.has_value());
  v.optional("progress", n.progress, n.progress.has_value());
  v.optional("tokens", n.tokens, !n.tokens.empty());
  v.optional("driven", n.driven, n.driven);
}

// With a hash of each file that is there.
LoadFiles load_files(const std::vector<PluginFile>& plugins);

}  // namespace messages

// Error, with a sentence, when a file is missing on this machine or has other contents.
std::vector<PluginFile> plugin_files_from(const messages::LoadFiles& message);

}  // namespace fk
