// SPDX-License-Identifier: Apache-2.0
#include "core/cli/output.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/report/document.hpp"
#include "core/report/table.hpp"
#include "core/report/trace_events.hpp"
#include "core/report/views/exports.hpp"
#include "core/report/views/page.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

// The file of --json, for an error of this process. Nothing until it is open.
std::optional<std::string> opened_file;

// For a device or a pipe: writes into it, and does not replace it by a file.
void write_into(const std::string& file, const std::string& text) {
  std::FILE* out = std::fopen(file.c_str(), "we");
  if (!out) fail(file, "cannot be written: " + errno_text());
  const bool written = std::fputs(text.c_str(), out) >= 0;
  if (std::fclose(out) != 0 || !written) fail_host(file, "cannot be written: " + errno_text());
}

// Replaces unsafe characters in untrusted names and texts, which readers of the report will show.
Json made_safe(const Json& from) {
  if (from.is_string()) return printable(from.get_ref<const std::string&>(), "\n\t");
  if (!from.is_structured()) return from;
  Json out = from.is_array() ? Json::array() : Json::object();
  for (const auto& [key, value] : from.items()) {
    if (from.is_array())
      out.push_back(made_safe(value));
    else
      out[printable(key)] = made_safe(value);
  }
  return out;
}

// For a link, its target.
fs::path target_of(const std::string& file, const fs::file_status& is) {
  std::error_code none;
  const fs::path target = fs::exists(is) ? fs::canonical(file, none) : fs::path();
  return target.empty() ? fs::path(file) : target;
}

bool is_pipe_or_device(const fs::file_status& is) {
  return fs::exists(is) && !fs::is_regular_file(is) && !fs::is_directory(is);
}

void write_text(const std::string& file, const std::string& text) {
  std::error_code none;
  const fs::file_status is = fs::status(file, none);
  if (is_pipe_or_device(is)) return write_into(file, text);
  write_file_atomic(target_of(file, is), text);
}

struct ErrorDocument {
  static constexpr const char* kSchema = kErrorSchema;
  static constexpr const char* kTitle = "An error that ended a verb";
  std::string verb;
  int exit_code = 0;
  std::string where, what, hint, text;
};
template <class Visitor>
void fields(Visitor& v, ErrorDocument& d) {
  v("verb", d.verb, "the verb; empty: there is no such verb");
  v("exit_code", d.exit_code, "of the program: 2 bad input or usage, 3 the environment failed");
  v("where", d.where, "a file with its line, an option or a name; empty: no place");
  v("what", d.what, "what is wrong");
  v("hint", d.hint, "the nearest right thing; empty: none is known");
  v("text", d.text, "all of it, as on standard error");
}
FK_DOCUMENT(error, ErrorDocument);

}  // namespace

void print_report(const std::string& text) {
  std::fputs(fitted(text, report_width()).c_str(), stdout);
}

void print_json(const Json& document, const std::string& file) {
  const std::string text =
      made_safe(document).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (file.empty() || file == "-") return void(std::fputs(text.c_str(), stdout));
  write_text(file, text);
}

void write_views(const Json& document, const std::string& html, const std::string& csv,
                 const std::string& markdown) {
  const View view = view_of(document);
  if (!html.empty()) write_text(html, page_of(view));
  if (!markdown.empty()) write_text(markdown, markdown_of(view));
  if (csv.empty()) return;
  for (const auto& [name, text] : csv_files(view)) write_file_atomic(fs::path(csv) / name, text);
}

void write_trace(const TraceEvents& events, const std::string& file) {
  const Json about = {{"program", "fk-host " FK_VERSION}, {"written", now_text()}};
  write_text(file, events.document(about).dump(-1, ' ', false, Json::error_handler_t::replace));
}

void need_writable(const std::string& file) {
  std::error_code none;
  const fs::file_status is = fs::status(file, none);
  if (fs::is_directory(is)) fail(file, "it is a folder", "name a file in it");
  if (fs::exists(is) && ::access(file.c_str(), W_OK) != 0)
    fail(file, "cannot be written: " + errno_text());
  if (is_pipe_or_device(is)) return;
  const fs::path target = target_of(file, is), named = target.parent_path();
  const fs::path folder = named.empty() ? "." : named;
  if (!fs::is_directory(folder, none))
    fail(file, "its folder does not exist", "mkdir -p " + folder.string());
  // As write_file_atomic() does it. A right on paper may be none, on a full disk for example.
  std::string probe = target.string() + ".XXXXXX";
  const int fd = ::mkstemp(probe.data());
  if (fd < 0) {
    const std::string why = "cannot be written: " + errno_text();
    if (errno == ENOSPC || errno == EDQUOT || errno == EIO) fail_host(file, why);
    fail(file, why);
  }
  ::unlink(probe.c_str());
  ::close(fd);
}

void JsonOutput::declare(const Options& app, const std::string& help) {
  option_ = app.add_option("--json", file_, help).value_optional();
}

void JsonOutput::declare_views(const Options& app) {
  app.add_option("--html", views_.html, "write a page with charts and tables to a file");
  app.add_option("--csv", views_.csv, "write every table into this folder");
  app.add_option("--markdown", views_.markdown, "write all tables to a file");
}

void JsonOutput::declare_mlflow(const Options& app) {
  app.add_option("--mlflow", views_.mlflow,
                 "log parameters, metrics, files and accepted kernels to the MLflow server with "
                 "this URI");
}

void JsonOutput::attach(const std::string& owner, const std::filesystem::path& path) {
  if (!views_.mlflow.empty() && !path.empty()) attached_.push_back({owner, path});
}

void JsonOutput::open() {
  if (!views_.mlflow.empty()) check_mlflow_uri(views_.mlflow);
  if (as_json() && to_file()) {
    need_writable(file_);
    opened_file = file_;
  }
  for (const std::string* file : {&views_.html, &views_.markdown})
    if (!file->empty()) need_writable(*file);
  std::error_code none;
  if (!views_.csv.empty() && fs::exists(views_.csv, none) && !fs::is_directory(views_.csv, none))
    fail(views_.csv, "it is no folder", "--csv DIR writes a file for each table");
  open_ = true;
}

std::string JsonOutput::take_word() { return std::exchange(file_, ""); }

void JsonOutput::write(const Json& document) const {
  FK_CHECK(open_, "JSON is written to a file that was not opened before the work");
  if (as_json()) print_json(document, file_);
  if (views_.empty()) return;
  write_views(document, views_.html, views_.csv, views_.markdown);
  if (!views_.mlflow.empty())
    log_to_mlflow(made_safe(document), page_of(view_of(document)), views_.mlflow, attached_);
}

void print_json_error(const std::string& verb, const std::exception& error, int exit_code) {
  ErrorDocument out{.verb = verb,
                    .exit_code = exit_code,
                    .where = {},
                    .what = error.what(),
                    .hint = {},
                    .text = error.what()};
  if (const auto* const known = dynamic_cast<const Error*>(&error)) {
    out.where = known->where();
    out.what = known->what_text();
    out.hint = known->hint();
  }
  print_json(document(out), opened_file.value_or(""));
}

}  // namespace fk
