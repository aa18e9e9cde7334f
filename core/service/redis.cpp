// SPDX-License-Identifier: Apache-2.0
#include "core/service/redis.hpp"

#if defined(FK_HIREDIS)
#include <hiredis/hiredis.h>
#include <sys/time.h>
#endif

#include <charconv>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

bool whole_number(const std::string& text, int most, int& into) {
  const char *from = text.data(), *to = from + text.size();
  const auto [end, fault] = std::from_chars(from, to, into);
  return !text.empty() && fault == std::errc() && end == to && into >= 0 && into <= most;
}

// "%40" is "@".
std::string decoded(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    int value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr ==
            text.data() + i + 3) {
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

const RedisAnswer& RedisAnswer::at(size_t place) const {
  if (place >= parts.size()) throw RedisRefusal("an answer of Redis is shorter than expected");
  return parts[place];
}

std::string RedisPlace::text() const {
  return "redis://" + host + ":" + std::to_string(port) + "/" + std::to_string(database);
}

RedisPlace redis_place(const std::string& url) {
#if !defined(FK_HIREDIS)
  fail_host("--redis", "this build of fk-host has no Redis: the library hiredis was not there",
            "install libhiredis-dev and build again");
#endif
  constexpr const char* kForm = "redis://:PASSWORD@HOST:PORT/DATABASE";
  RedisPlace out;
  if (starts_with(url, "rediss://"))
    fail("--redis", "there is no TLS to Redis here", "a tunnel, and redis://127.0.0.1:PORT");
  if (!starts_with(url, "redis://"))  // the text may have a password
    fail("--redis", "this is no address of Redis", kForm);
  std::string rest = url.substr(url.find("://") + 3);
  if (const size_t at = rest.rfind('@'); at != rest.npos) {
    const std::string who = rest.substr(0, at);
    const size_t colon = who.find(':');
    if (colon == who.npos) fail("--redis", "there is no password before the @", kForm);
    out.user = decoded(who.substr(0, colon)), out.password = decoded(who.substr(colon + 1));
    rest = rest.substr(at + 1);
  }
  if (const size_t slash = rest.find('/'); slash != rest.npos) {
    const std::string number = rest.substr(slash + 1);
    if (!number.empty() && !whole_number(number, 1 << 20, out.database))
      fail("--redis", "`" + excerpt(number) + "` is no number of a database", kForm);
    rest.resize(slash);
  }
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != rest.npos && rest.back() != ']';
  if (has_port && !whole_number(rest.substr(colon + 1), 65535, out.port))
    fail("--redis", "`" + excerpt(rest.substr(colon + 1)) + "` is no port", kForm);
  out.host = has_port ? rest.substr(0, colon) : rest;
  if (starts_with(out.host, "[") && ends_with(out.host, "]"))
    out.host = out.host.substr(1, out.host.size() - 2);
  if (out.host.empty()) fail("--redis", "there is no host", kForm);
  if (out.password.empty()) out.password = environment("REDISCLI_AUTH");
  return out;
}

#if !defined(FK_HIREDIS)

struct Redis::State {
  RedisPlace place;
};
RedisAnswer Redis::ask(const std::vector<std::string>&) { throw RedisAway("there is no hiredis"); }

#else

namespace {

constexpr timeval kRedisConnectPatience{5, 0}, kRedisAnswerPatience{15, 0};

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};

RedisAnswer answer_of(const redisReply& reply) {
  RedisAnswer out;
  out.none = reply.type == REDIS_REPLY_NIL;
  out.number = reply.type == REDIS_REPLY_INTEGER ? reply.integer : 0;
  if (reply.str) out.text.assign(reply.str, reply.len);
  for (size_t i = 0; i < reply.elements; ++i) out.parts.push_back(answer_of(*reply.element[i]));
  return out;
}

}  // namespace

struct Redis::State {
  RedisPlace place;
  std::unique_ptr<redisContext, FreeContext> context;

  RedisAnswer exchange(const std::vector<std::string>& words) {
    std::vector<const char*> texts;
    std::vector<size_t> sizes;
    for (const auto& word : words) texts.push_back(word.data()), sizes.push_back(word.size());
    const std::unique_ptr<redisReply, FreeReply> reply(static_cast<redisReply*>(redisCommandArgv(
        context.get(), static_cast<int>(words.size()), texts.data(), sizes.data())));
    if (!reply) {
      const std::string why = context->errstr;
      context.reset();
      throw RedisAway(place.text() + ": " + why);
    }
    if (reply->type == REDIS_REPLY_ERROR) throw RedisRefusal(std::string(reply->str, reply->len));
    return answer_of(*reply);
  }

  void connect() {
    context.reset(redisConnectWithTimeout(place.host.c_str(), place.port, kRedisConnectPatience));
    if (!context || context->err) {
      const std::string why = context ? context->errstr : "no memory";
      context.reset();
      throw RedisAway(place.text() + ": " + why);
    }
    redisSetTimeout(context.get(), kRedisAnswerPatience);
    redisEnableKeepAlive(context.get());
    try {
      if (!place.password.empty())
        exchange(place.user.empty() ? std::vector<std::string>{"AUTH", place.password}
                                    : std::vector<std::string>{"AUTH", place.user, place.password});
      if (place.database != 0) exchange({"SELECT", std::to_string(place.database)});
    } catch (const RedisRefusal& refusal) {
      context.reset();
      throw RedisRefusal(place.text() + ": " + refusal.what());
    }
  }
};

RedisAnswer Redis::ask(const std::vector<std::string>& words) {
  if (!state_->context) state_->connect();
  return state_->exchange(words);
}

#endif

Redis::Redis(RedisPlace place) : state_(std::make_unique<State>()) {
  state_->place = std::move(place);
}
Redis::~Redis() = default;
const RedisPlace& Redis::place() const { return state_->place; }

}  // namespace fk
