// SPDX-License-Identifier: Apache-2.0
// Messages between machines. A process without the key is ignored. The words of another machine are
// not believed.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/error.hpp"
#include "core/worker/channel.hpp"
#include "core/worker/remote/link.hpp"
#include "core/worker/remote/messages.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

namespace {

using namespace fk;

const std::string kKey = "a key of no importance", kOther = "a key that is another";

// A listener at some port that nobody else has.
struct Listening {
  int port = 20000 + ::getpid() % 20000;
  std::unique_ptr<LinkListener> listener;
  Listening() {
    while (!listener) {
      try {
        listener = std::make_unique<LinkListener>(port);
      } catch (const Error&) {
        ++port;
      }
    }
  }
};

// A client which has connected and has said nothing yet.
int caller_of(const Listening& at) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(at.port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

// Listens until so many have come who are not let in; false when somebody was.
bool turns_away(LinkListener& listener, const std::string& key, int strangers) {
  for (int tries = 0; listener.strangers() < strangers && tries < 200; ++tries)
    if (listener.accept(key, 0.05)) return false;
  return true;
}

TEST_CASE("who knows the key is connected, and nothing is lost behind the proof") {
  Listening at;
  int here = -1;
  std::thread other([&] {
    here = connect_link("127.0.0.1", at.port, kKey, 42, 5);
    CHECK(::write(here, "hello", 5) == 5);
  });
  const auto link = at.listener->accept(kKey, 5);
  other.join();
  REQUIRE(link);
  CHECK(link->id == 42);
  char text[6] = {};
  CHECK(::recv(link->fd, text, 5, MSG_WAITALL) == 5);
  CHECK(std::string(text) == "hello");
  CHECK((::fcntl(here, F_GETFL) & O_NONBLOCK) == 0);
  ::close(here);
  ::close(link->fd);
}

TEST_CASE("who does not know the key is not connected") {
  Listening at;
  std::string why;
  std::thread other([&] {
    try {
      ::close(connect_link("127.0.0.1", at.port, kOther, 1, 5));
    } catch (const Error& e) {
      why = e.what();
    }
  });
  CHECK(turns_away(*at.listener, kKey, 1));
  other.join();
  CHECK_THAT(why, ContainsSubstring("does not know the key"));
  CHECK(at.listener->strangers() == 1);
  // Nor is one who repeats what was right in another connection, or says anything else.
  std::thread liar([&] {
    const int fd = caller_of(at);
    const std::string said = "fk-link1" + std::string(24 + 32, 'x');
    CHECK(::write(fd, said.data(), said.size()) == static_cast<ssize_t>(said.size()));
    ::shutdown(fd, SHUT_WR);
    wait_readable(fd, 5);  // the answer, which makes no difference
    ::close(fd);
  });
  const bool away = turns_away(*at.listener, kKey, 2);
  liar.join();  // Catch2 is not for two threads
  CHECK(away);
  CHECK(at.listener->strangers() == 2);
}

TEST_CASE("who connects and says nothing keeps nobody waiting") {
  Listening at;
  // More than are listened to at once; some say half of a word.
  std::vector<int> silent;
  for (int i = 0; i < 80; ++i) {
    silent.push_back(caller_of(at));
    if (i % 2) CHECK(::write(silent.back(), "fk-link1", 8) == 8);
  }
  int here = -1;
  std::thread other([&] { here = connect_link("127.0.0.1", at.port, kKey, 7, 5); });
  const auto begin = std::chrono::steady_clock::now();
  const auto link = at.listener->accept(kKey, 5);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  other.join();
  REQUIRE(link);
  CHECK(link->id == 7);
  CHECK(took.count() < 2.5);
  CHECK(at.listener->strangers() >= 80 - 63);
  for (const int fd : silent) ::close(fd);
  ::close(here);
  ::close(link->fd);
}

TEST_CASE("who has been answered is not turned away for those who say half a word") {
  Listening at;
  std::vector<int> callers{caller_of(at)};
  const std::string call = "fk-link1" + std::string(24, 'x');
  CHECK(::write(callers[0], call.data(), call.size()) == static_cast<ssize_t>(call.size()));
  CHECK_FALSE(at.listener->accept(kKey, 0.05));
  for (int i = 0; i < 80; ++i) {
    callers.push_back(caller_of(at));
    CHECK(::write(callers.back(), "fk-link1", 8) == 8);
  }
  CHECK(turns_away(*at.listener, kKey, 81 - 64));
  char answer[48];
  CHECK(::recv(callers[0], answer, sizeof answer, MSG_WAITALL) == sizeof answer);
  CHECK(::recv(callers[0], answer, 1, MSG_DONTWAIT) < 0);  // still there
  for (const int fd : callers) ::close(fd);
}

TEST_CASE("who is turned away unheard comes again") {
  Listening at;
  std::string why;
  int here = -1;
  std::thread other([&] {
    try {
      here = connect_link("127.0.0.1", at.port, kKey, 7, 5);
    } catch (const Error& e) {
      why = e.what();
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it has connected
  at.listener.reset();
  at.listener = std::make_unique<LinkListener>(at.port);
  const auto link = at.listener->accept(kKey, 5);
  other.join();
  CHECK(why == "");
  REQUIRE(link);
  CHECK(link->id == 7);
  ::close(here);
  ::close(link->fd);
}

TEST_CASE("a listener that does not know the key is not believed") {
  Listening at;
  std::thread listener([&] { turns_away(*at.listener, kOther, 1); });
  CHECK_THROWS_WITH(connect_link("127.0.0.1", at.port, kKey, 1, 5),
                    ContainsSubstring("does not know the key"));
  listener.join();
}

TEST_CASE("what is secret is in the environment no more") {
  std::string word = "FK_TEST_SECRET=not for others";
  ::putenv(word.data());
  CHECK(take_from_environment("FK_TEST_SECRET") == "not for others");
  CHECK(std::getenv("FK_TEST_SECRET") == nullptr);
  CHECK(word.find("not") == std::string::npos);
  CHECK(take_from_environment("FK_TEST_SECRET").empty());
}

TEST_CASE("plugins have to be the same files on all machines") {
  const Folder folder;
  const auto path = folder.path / "mine.so";
  std::ofstream(path) << "one";
  const messages::LoadFiles said = messages::load_files({{path, Trust::candidate}});
  const auto files = plugin_files_from(said);
  REQUIRE(files.size() == 1);
  CHECK((files[0].path == path && files[0].trust == Trust::candidate));
  std::ofstream(path) << "two";
  CHECK_THROWS_WITH(plugin_files_from(said), ContainsSubstring("is another file on this machine"));
  std::filesystem::remove(path);
  CHECK_THROWS_WITH(plugin_files_from(said), ContainsSubstring("is not on this machine"));
}

TEST_CASE("what a machine says of a failure is bounded and clean") {
  const RunnerFailure told{"crashed", "all_reduce (x)", "crashed: SIGSEGV", "printed\n"};
  const RunnerFailure heard = runner_failure_from(to_fields(told));
  CHECK((heard.kind == told.kind && heard.where == told.where && heard.text == told.text &&
         heard.log == told.log));
  const RunnerFailure odd = runner_failure_from(to_fields(RunnerFailure{
      "correct", "", "\x1b[2J" + std::string(100000, 'x'), std::string(1000000, 'y')}));
  CHECK(odd.kind == "protocol");
  CHECK((odd.text.size() < 10000 && odd.text[0] == '?' && odd.log.size() < 100000));
  CHECK_THROWS(runner_failure_from(Json{{"kind", 3}}));
}

}  // namespace
