// SPDX-License-Identifier: Apache-2.0
// Requests about a worker's session, or about the weights that it keeps for others (`runner.hpp`).
#include <unistd.h>

#include <cstring>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/worker/runner.hpp"

namespace fk {

std::optional<WeightsHandle> Runner::keep(const SessionSpec& spec, uint64_t seed,
                                          const std::string& checkpoint, int local_rank,
                                          const OnProgress& progress) {
  const auto answer = send(messages::Keep{spec, seed, checkpoint, local_rank}, {},
                           options_.open_patience_s, progress);
  if (!answer) return std::nullopt;
  const auto fds = channel_->take_fds();
  if (fds.size() != 1) {
    for (const int fd : fds) ::close(fd);
    bury("protocol", "a malformed answer to keeping");
    return std::nullopt;
  }
  WeightsHandle kept;
  kept.fd = fds[0];
  kept.bytes = answer->bytes;
  kept.on_device = answer->on_device;
  return kept;
}

std::optional<uint64_t> Runner::checksum() {
  return send(messages::Checksum{}, {}, options_.patience_s);
}

std::optional<SessionInfo> Runner::open(const SessionSpec& spec, const WeightsHandle& weights,
                                        const StatesHandle* states) {
  std::vector<int> fds{weights.fd};
  if (states) fds.push_back(states->fd);
  auto answer = send(messages::Open{.name = options_.name,
                                    .spec = spec,
                                    .weights_bytes = weights.bytes,
                                    .weights_on_device = weights.on_device,
                                    .states_bytes = states ? states->bytes : 0},
                     fds, options_.open_patience_s);
  if (!answer) return std::nullopt;
  if (spec.shares_states && !take_states(answer->states_bytes)) return std::nullopt;
  info_ = std::move(answer->session);
  return info_;
}

bool Runner::take_states(int64_t bytes) {
  const auto fds = channel_->take_fds();
  if (states_.fd >= 0) ::close(states_.fd);
  states_ = {};
  if (fds.size() == 1) {
    states_.fd = fds[0];
    states_.bytes = bytes;
    return true;
  }
  for (const int fd : fds) ::close(fd);
  if (fds.empty() && bytes == 0) return true;  // it has no states
  bury("protocol", "a malformed answer to opening");
  return false;
}

bool Runner::join(const RankSeat& seat, int block_fd, const std::vector<int>& sockets,
                  double patience_s) {
  std::vector<int> fds = {block_fd};
  for (const int fd : sockets)
    if (fd >= 0) fds.push_back(fd);  // a rank has no socket to itself
  return send(messages::Join{seat, patience_s}, fds, options_.open_patience_s).has_value();
}

bool Runner::clear() { return send(messages::Clear{}, {}, options_.patience_s).has_value(); }

bool Runner::close_session() {
  return send(messages::CloseSession{}, {}, options_.patience_s).has_value();
}

bool Runner::record(const RecordOptions& options, int file, const std::string& workload) {
  std::vector<int> fds;
  if (!recording_) fds.push_back(file);
  recording_ = true;
  return send(messages::Record{options, workload}, fds, options_.patience_s).has_value();
}

std::optional<Recording> Runner::recorded() {
  recording_ = false;
  return send(messages::Recorded{}, {}, options_.patience_s);
}

// ---- drives: requests go into the ring, and events come out ----

bool Runner::begin(bool taps) {
  if (failed()) return false;
  FK_CHECK(!driving_, "a run starts before the last one has ended");
  life_s_ = now_seconds();
  if (!channel_->send(message_json(messages::Drive{taps, ++run_}), {}, options_.patience_s)) {
    bury("hang", "it does not take messages");
    return false;
  }
  driving_ = true;
  driven_ = false;
  return true;
}

void Runner::submit(const Request& request) {
  if (failed()) return;
  const auto payload = encode_request(request);
  RecordHeader header;
  header.kind = static_cast<uint32_t>(RecordKind::request);
  header.id = request.id;
  header.payload_bytes = payload.size();
  const auto* head = reinterpret_cast<const std::byte*>(&header);
  unsent_.insert(unsent_.end(), head, head + sizeof header);
  unsent_.insert(unsent_.end(), payload.begin(), payload.end());
  flush_requests();
}

void Runner::close_requests() {
  if (failed()) return;
  RecordHeader header;
  header.kind = static_cast<uint32_t>(RecordKind::close);
  const auto* head = reinterpret_cast<const std::byte*>(&header);
  unsent_.insert(unsent_.end(), head, head + sizeof header);
  flush_requests();
}

void Runner::flush_requests() {
  try {
    unsent_at_ += requests_->write_some(unsent_.data() + unsent_at_, unsent_.size() - unsent_at_);
  } catch (const Error& e) {
    bury("protocol", e.what());
  }
  if (unsent_at_ < unsent_.size()) return;
  unsent_.clear();
  unsent_at_ = 0;
}

std::optional<RunnerEvent> Runner::next_event() {
  Record record;
  if (!results_->next(record)) return std::nullopt;
  RunnerEvent event;
  event.time_s = life_s_ = now_seconds();
  event.id = record.header.id;
  event.index = record.header.index;
  switch (record.kind()) {
    case RecordKind::token:
      event.kind = RunnerEvent::Kind::token;
      event.token = record.header.value;
      event.last = (record.header.flags & 1U) != 0;
      break;
    case RecordKind::logits:
      event.kind = RunnerEvent::Kind::logits;
      event.values = decode_floats(record);
      break;
    case RecordKind::shared:
      event.kind = RunnerEvent::Kind::shared;
      event.index = record.header.value;
      break;
    case RecordKind::tensor:
      event.kind = RunnerEvent::Kind::tensor;
      event.tensor = decode_tensor(record);
      break;
    case RecordKind::failed:
    case RecordKind::progress:
      event.kind = record.kind() == RecordKind::failed ? RunnerEvent::Kind::failed
                                                       : RunnerEvent::Kind::progress;
      event.text = decode_text(record);
      break;
    default:
      fail("worker", "a record that only the host may send");
  }
  return event;
}

std::optional<RunnerEvent> Runner::wait(double timeout_s) {
  double end = now_seconds() + timeout_s;
  while (!failed()) {
    try {
      if (unsent_at_ < unsent_.size()) flush_requests();
      if (auto event = next_event()) return event;
      if (driven_) {
        driven_ = driving_ = false;
        RunnerEvent event;
        event.kind = RunnerEvent::Kind::driven;
        event.time_s = now_seconds();
        return event;
      }
      // Records sent before the message are in the ring by now, so the ring is read once more
      // first.
      if (const auto message = channel_->receive()) {
        if (!handle(*message)) return std::nullopt;
        if (!ends_a_drive(*message)) return unasked(), std::nullopt;
        driven_ = driving_ && message->value("driven", int64_t{0}) == run_;
        continue;
      }
    } catch (const std::exception& e) {
      bury("protocol", e.what());
      return std::nullopt;
    }
    if (driving_ && !check_alive(options_.patience_s)) return std::nullopt;
    const double left = end - now_seconds();
    if (left <= 0) return std::nullopt;
    sleep(std::min(left, kTick));
    if (options_.waker >= 0 && wait_readable(options_.waker, 0)) end = 0;  // after one more look
  }
  return std::nullopt;
}

}  // namespace fk
