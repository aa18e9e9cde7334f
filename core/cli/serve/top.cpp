// SPDX-License-Identifier: Apache-2.0
// fk-host top: the state of a service, again and again on a terminal, else once.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/report/table.hpp"
#include "core/service/client.hpp"
#include "core/service/state_document.hpp"

namespace fk {
namespace {

constexpr const char* kNewPage = "\x1b[H\x1b[2J";

struct TopArguments {
  std::string url;
  int every_s = 2;
  JsonOutput json;
};

FK_DOCUMENT(service, ServiceState);

std::string top_page(const std::string& url, const ServiceState& s) {
  const bool colour = colour_wanted(stdout);
  std::string out = printable(url) + ", up " + human_duration(s.up_s) + "\n";
  out += std::to_string(s.waiting_check) + " jobs wait for a check, " +
         std::to_string(s.waiting_time) + " to be timed. " + std::to_string(s.ended_minute) +
         " ended in the last minute, " + std::to_string(s.ended_hour) + " in the last hour";
  out += s.mean_s > 0 ? ", " + human_duration(s.mean_s) + " each.\n\n" : ".\n\n";
  Table lanes({{"device"}, {"takes"}, {"client"}, {"stage"}, {"since", Align::right}});
  for (const auto& lane : s.lanes)
    lanes.row({lane.device, lane.stages,
               lane.client.empty() ? Cell("idle", Style::weak) : Cell(lane.client), lane.stage,
               lane.client.empty() ? "" : human_duration(lane.seconds)});
  out += lanes.text(colour);
  Table clients(
      {{"client"}, {"waits", Align::right}, {"runs", Align::right}, {"ended", Align::right}});
  for (const auto& client : s.clients)
    clients.row({client.name, std::to_string(client.queued), std::to_string(client.running),
                 std::to_string(client.ended)});
  if (!clients.empty()) out += "\n" + clients.text(colour);
  Table statuses({{"ended as"}, {"jobs", Align::right}});
  for (const auto& status : s.statuses) statuses.row({status.status, std::to_string(status.ended)});
  if (!statuses.empty()) out += "\n" + statuses.text(colour);
  return out;
}

int top(TopArguments& a) {
  a.json.open();
  const ServiceClient server(a.url, environment("FK_TOKEN"));
  const bool repeated = ::isatty(STDOUT_FILENO) == 1 && !a.json.given();
  for (;;) {
    const Json found = server.ask("GET", "/v1/state");
    if (a.json.given()) a.json.write(found);
    const auto state = from_fields<ServiceState>(found, "the server's state", {.foreign = true});
    if (a.json.with_report())
      std::printf("%s%s", repeated ? kNewPage : "", top_page(a.url, state).c_str());
    std::fflush(stdout);
    if (!repeated) return kExitOk;
    ::sleep(static_cast<unsigned>(a.every_s));
  }
}

std::function<int()> add_top(const Options& app) {
  auto a = std::make_shared<TopArguments>();
  constexpr int kMost = 3600;
  app.add_option("url", a->url, "of a server, such as http://127.0.0.1:8080").required();
  app.add_option("--every", a->every_s, "seconds between two pages on a terminal").range(1, kMost);
  a->json.declare(app);
  app.footer("Without a terminal it prints one page. FK_TOKEN has the token of the client.");
  return [a] { return top(*a); };
}

FK_VERB(top, "show queue, lanes, clients and rates of a server (`serve --http`)", add_top);

}  // namespace
}  // namespace fk
