// SPDX-License-Identifier: Apache-2.0
// fk-host show NAME: a contract as a page, or a model's card.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/verb.hpp"
#include "core/contract/header.hpp"
#include "core/contract/show.hpp"
#include "core/runtime/model_info.hpp"

namespace fk {
namespace {

struct Arguments {
  std::string name;
  bool header = false;
};

void print_model(const ModelInfo& m) {
  std::printf("# %s (%s)\n\n%s\n\n", m.arch.c_str(), m.domain.c_str(), m.summary.c_str());
  std::printf(
      "architectures   %s\nconfigurations  %s\nsource          %s\npaper           %s\nmade of     "
      "    %s\ncorrectness     %s\ntiny profile    %s\n",
      join(m.architectures, ", ").c_str(), join(m.configs, ", ").c_str(), m.source.c_str(),
      m.paper.c_str(), join(m.parts, ", ").c_str(),
      m.correctness == Signal::logits ? "logits" : "embeddings",
      m.tiny ? m.tiny->dump().c_str() : "{}");
}

int show(const Arguments& a) {
  const Catalog catalog(paths::registry_dirs());
  if (const Contract* contract = catalog.find(a.name)) {
    std::fputs(a.header ? header_text(*contract).c_str() : contract_page(*contract).c_str(),
               stdout);
    return kExitOk;
  }
  std::vector<std::string> known = catalog.ops();
  for (const auto& m : load_model_infos()) {
    if (m.arch == a.name) {
      print_model(m);
      return kExitOk;
    }
    known.push_back(m.arch);
  }
  for (const auto& op : catalog.ops()) {
    for (const auto& alias : catalog.at(op).aliases) {
      if (alias == a.name)
        fail("show", "`" + a.name + "` is another name of `" + op + "`", "fk-host show " + op);
    }
  }
  fail("show", "there is no op or model `" + a.name + "`", did_you_mean(a.name, known));
}

std::function<int()> add(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  app.add_option("NAME", a->name, "an op or a model")->required();
  app.add_flag("--header", a->header, "the whole generated header of an op");
  return [a] { return show(*a); };
}

FK_VERB(show, "a contract as a page for authors, or a model's card", add);

}  // namespace
}  // namespace fk
