// SPDX-License-Identifier: Apache-2.0
// A worker that has been taken over: it answers the first messages as it should, then lies through
// every channel there is. Its mode is the value of FK_HOSTILE: in "ranks:lost 500,silent 0" what
// each of several ranks does after so many milliseconds.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/io.hpp"
#include "core/worker/board.hpp"
#include "core/worker/channel.hpp"
#include "core/worker/record.hpp"

using namespace fk;

namespace {

const char* mode = "";
bool is(const char* name) { return std::strcmp(mode, name) == 0; }

void raw(const std::string& bytes) {
  [[maybe_unused]] const ssize_t n = ::write(kControlFd, bytes.data(), bytes.size());
}

Json result(const Json& answer) { return {{"result", answer}}; }

Json session(const Json& nodes) {
  return result({{"session",
                  {{"phases", {{{"name", "p"}, {"nodes", nodes}}}},
                   {"weights_bytes", 0},
                   {"packed_bytes", 0},
                   {"persistent_bytes", 0},
                   {"states_bytes", 0},
                   {"arena_bytes", 0},
                   {"scratch_bytes", 0},
                   {"pages", 0},
                   {"device_threads", 1},
                   {"device", "cpu"}}},
                 {"states_bytes", 0}});
}

void send(RingWriter& ring, RecordKind kind, uint64_t id, int64_t index, uint64_t claimed,
          const std::string& payload) {
  RecordHeader header;
  header.kind = static_cast<uint32_t>(kind);
  header.id = id;
  header.index = index;
  header.payload_bytes = claimed;
  ring.write_some(&header, sizeof header);
  ring.write_some(payload.data(), payload.size());
}

void lie(Channel& channel, Board& board, RingWriter& ring) {
  const std::string junk(64, 'x');
  std::memset(board.stage, 'A', sizeof board.stage);  // without an end
  std::memset(board.crash, '\033', sizeof board.crash);
  for (auto& node : board.nodes) node = 1 << 30;
  if (is("ring_head")) board.results.head.store(uint64_t{1} << 60);
  if (is("ring_tail")) board.requests.tail.store(uint64_t{1} << 60);
  if (is("huge_payload")) send(ring, RecordKind::logits, 1, 0, uint64_t{1} << 62, "");
  if (is("unknown_kind")) send(ring, static_cast<RecordKind>(99), 1, 0, 0, "");
  if (is("broker_kind")) send(ring, RecordKind::request, 1, 0, 0, "");
  if (is("unknown_id")) send(ring, RecordKind::token, 12345, 0, 0, "");
  if (is("odd_logits")) send(ring, RecordKind::logits, 1, 0, 3, "abc");
  if (is("far_logits")) send(ring, RecordKind::logits, 1, -5, 64, junk);
  if (is("bad_tensor")) send(ring, RecordKind::tensor, 1, 0, 64, junk);
  if (is("json_garbage")) raw(std::string("\x10\0\0\0", 4) + "this is no json!");
  if (is("json_deep")) raw(std::string("\x00\x10\0\0", 4) + std::string(4096, '['));
  if (is("json_length")) raw(std::string("\xff\xff\xff\xff", 4));
  if (is("json_types")) channel.send({{"driven", "yes"}}, {}, 1);
  if (is("error_types")) channel.send({{"error", 5}}, {}, 1);
  while (is("chatter") || is("many_ends"))
    channel.send(is("chatter") ? Json::object() : Json{{"driven", 0}}, {}, 1);
  if (is("early_done")) channel.send({{"driven", 1}}, {}, 1);
  if (is("leaves")) ::_exit(0);
  if (is("lingers") || is("lingers_exit")) {
    std::snprintf(board.crash, sizeof board.crash, "%s",
                  is("lingers") ? "SIGSEGV at address 0x10 in a.so" : "exit(3) was called in a.so");
    ::shutdown(kControlFd, SHUT_RDWR);
    ::pause();
  }
  while (is("endless_progress")) send(ring, RecordKind::progress, 0, 0, 64, junk), ::usleep(100);
  while (is("endless_output")) [[maybe_unused]] const ssize_t n = ::write(1, junk.data(), 64);
}

// This rank's act, for a task as for a drive.
void act(Channel& channel, const std::string& own, const Json& done) {
  const double seconds = 1e-3 * std::atoi(own.substr(own.find(' ')).c_str());
  ::usleep(static_cast<useconds_t>(1e6 * seconds));
  const auto error = [&](const char* kind, const char* where, const char* text) {
    channel.send(
        {{"error", {{"kind", kind}, {"where", where}, {"text", text}, {"waited_s", seconds}}}}, {},
        1);
  };
  if (own.starts_with("lost")) error("lost", "all_reduce (x) or before it", "the device failed");
  if (own.starts_with("misses")) error("refused", "", "another did not come to all_reduce");
  if (own.starts_with("dies")) ::raise(SIGKILL);
  if (own.starts_with("answers")) channel.send(done, {}, 1);
  if (own.starts_with("tells")) channel.send({{"progress", 5}}, {}, 1);
}

std::string of_rank(int rank) {
  std::string all = std::string(mode).substr(std::strlen("ranks:"));
  for (; rank > 0; --rank) all = all.substr(all.find(',') + 1);
  return all.substr(0, all.find(','));
}

}  // namespace

int main() {
  mode = std::getenv("FK_HOSTILE");
  Channel channel(kControlFd, true);
  SharedMemory shared;
  std::string own;
  for (;;) {
    const auto message = channel.receive();
    if (channel.closed()) return 0;
    if (!message) {
      wait_readable(kControlFd, 1);
      continue;
    }
    const std::string what = message->at("do").get<std::string>();
    const auto fds = channel.take_fds();
    if (what == "hello") shared = SharedMemory::from_fd(fds[0], kSharedBytes, true);
    static RingEvents events{fds[3], fds[4]};
    if (what == "hello") channel.send(result({{"odd", "not a number"}}), {}, 1);
    if (what == "join") {
      own = of_rank(message->at("seat").at("rank").get<int>());
      channel.send(result(Json::object()), {}, 1);
    }
    if (!own.empty() && what == "task") act(channel, own, result(1));
    if (!own.empty() && what == "drive") act(channel, own, {{"driven", message->at("run")}});
    if (!own.empty()) continue;
    if (what == "open" && is("session_types")) channel.send(result(5), {}, 1);
    if (what == "open" && is("session_nodes")) channel.send(session({1, 2}), {}, 1);
    if (what == "open") channel.send(session(Json::array()), {}, 1);
    if (what == "load") channel.send(result({{"errors", {7}}, {"refused", {1}}}), {}, 1);
    while (what == "task" && is("chatter")) channel.send(Json::object(), {}, 1), ::usleep(100'000);
    if (what == "task" && !is("silent"))
      channel.send(
          result({{"failed",
                   {{"why", "forward: the end"}, {"echo", false}, {"lost", is("loses_device")}}},
                  {"answer", nullptr}}),
          {}, 1);
    if (what != "drive") continue;
    auto& board = *static_cast<Board*>(shared.data());
    RingWriter ring(board.results, result_data(shared.data()), kResultRingBytes, events);
    lie(channel, board, ring);
  }
}
