// SPDX-License-Identifier: Apache-2.0
#include "core/cli/serve/serve_http.hpp"

#include <cstdio>

#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/language.hpp"
#include "core/cli/verb.hpp"
#include "core/service/http.hpp"
#include "core/service/service.hpp"

namespace fk {

int serve_http(const ServeHttpArguments& a) {
  Service::Options options;
  options.devices = a.devices;
  options.folder =
      std::filesystem::absolute(a.queue.empty() ? paths::data_dir() / "service" : a.queue);
  options.limits.jobs = a.client_jobs;
  options.body_most = static_cast<size_t>(a.body_mib) << 20;
  options.languages = {{"c", ".c"}, {"cpp", ".cpp"}, {"cuda", ".cu"}};
  for (const auto& language : languages()) options.languages[language.name] = language.extension;
  HttpOptions http;
  http.address = a.address;
  if (!a.tokens.empty()) http.tokens = load_tokens(a.tokens);
  http.certificate = a.certificate;
  http.key = a.key;
  Service service(options);
  HttpServer server(http, service);
  std::printf("judging on %s for clients of %s\n", join(a.devices, ", ").c_str(),
              server.url().c_str());
  std::fflush(stdout);
  server.run();
  return kExitOk;
}

}  // namespace fk
