// SPDX-License-Identifier: Apache-2.0
// Verdicts from a server (fk-host serve) that keeps processes, contents and answers ready. It
// listens beside the verdicts' store, on one socket per device. Both ends accept only this user.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "core/cli/judged.hpp"
#include "core/judge/verdict/secret.hpp"
#include "core/store/key.hpp"

namespace fk {

// Asks this device's server; about values alone first the server for checks. It uses its own
// secret, unless `secret` has one. Nothing when there is no server, when it ends before the answer,
// or when it would judge differently: another build, other folders, another sandbox. Error when the
// question is wrong. `progress` gets the server's messages.
std::optional<Verdict> ask_server(const Question& question, const Secret* secret,
                                  const JudgeProgress& progress);

// Keys of progress messages before the answer; each has a text.
inline constexpr const char *kStepKey = "step", *kEndedKey = "ended";

// ---- for the server ----

// The socket in paths::data_dir(), with `checks` of a server for values alone, which does not wait
// behind a timing. Error when its path is too long.
std::filesystem::path socket_path(const std::string& device, bool checks);

struct Asked {
  Question question;
  std::optional<Secret> secret;
};
// Parses a message of ask_server(). Error for other messages.
Asked asked_from(const Json& message);
// Other conditions of a verdict in this process. Equal for processes that would judge alike.
Json surroundings(const std::string& device);

}  // namespace fk
