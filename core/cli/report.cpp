// SPDX-License-Identifier: Apache-2.0
// fk-host report DOCUMENT: pages and tables of a document that a verb wrote earlier with --json.
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/report/views/exports.hpp"

namespace fk {
namespace {

struct ReportArguments {
  std::string document;
  JsonOutput json;
};

int report(ReportArguments& a) {
  a.json.open();
  const Json document = load_json(a.document);
  try {
    if (a.json.given())
      a.json.write(document);
    else
      std::fputs(markdown_of(view_of(document)).c_str(), stdout);
  } catch (const Error& error) {
    fail(error.where().empty() ? a.document : error.where(), error.what_text(), error.hint());
  }
  return kExitOk;
}

std::function<int()> add_report(const Options& app) {
  auto a = std::make_shared<ReportArguments>();
  app.add_option("DOCUMENT", a->document, "a file of --json").required();
  a->json.declare_views(app);
  app.footer("Without options, all tables go to the standard output as Markdown.");
  return [a] { return report(*a); };
}

FK_VERB(report, "pages and tables of an earlier document of --json", add_report);

}  // namespace
}  // namespace fk
