// SPDX-License-Identifier: Apache-2.0
// Verdicts from a server (fk-host serve) that keeps processes, contents and answers ready. It
// listens beside the verdicts' store, on one socket per device. Both ends accept only this user.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "core/base/error_fields.hpp"
#include "core/cli/judged.hpp"
#include "core/judge/verdict/secret.hpp"
#include "core/report/verdict_documents.hpp"
#include "core/store/key.hpp"

namespace fk {

// Asks this device's server; about values alone first the server for checks. It uses its own
// secret, unless `secret` has one. Nothing when there is no server, when it ends before the answer,
// or when it would judge differently: another build, other folders, another sandbox. Error when the
// question is wrong. `progress` gets the server's messages.
std::optional<Verdict> ask_server(const Question& question, const Secret* secret,
                                  const JudgeProgress& progress);

// ---- for the server ----

// A client's message.
struct ServerQuestion {
  InnerVerdict question;  // without a result
  std::string secret;     // in hex; empty: the server's
  Json surroundings;      // another build's may have another form
};
template <class Visitor>
void fields(Visitor& v, ServerQuestion& q) {
  v("question", q.question);
  v("secret", q.secret);
  v.optional("surroundings", q.surroundings, true);
}

// A server's message has one of these. The first two are progress, the others end the exchange.
struct ServerMessage {
  std::optional<std::string> step = {}, ended = {};
  std::optional<InnerVerdict> verdict = {};
  std::optional<std::string> declined = {};  // the reason: the client must judge
  std::optional<ErrorFields> error = {};
};
template <class Visitor>
void fields(Visitor& v, ServerMessage& m) {
  v.optional("step", m.step, m.step.has_value());
  v.optional("ended", m.ended, m.ended.has_value());
  v.optional("verdict", m.verdict, m.verdict.has_value());
  v.optional("declined", m.declined, m.declined.has_value());
  v.optional("error", m.error, m.error.has_value());
}

// The socket in paths::data_dir(), with `checks` of a server for values alone, which does not wait
// behind a timing. Error when its path is too long.
std::filesystem::path socket_path(const std::string& device, bool checks);

struct Asked {
  Question question;
  std::optional<Secret> secret;
  Json surroundings;
};
// Parses a message of ask_server(). Error for other messages.
Asked asked_from(const Json& message);
// Other conditions of a verdict in this process. Equal for processes that would judge alike.
Json surroundings(const std::string& device);

}  // namespace fk
