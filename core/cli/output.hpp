// SPDX-License-Identifier: Apache-2.0
// Reports and documents of verbs: --json and the file behind it, views of the same document
// (--html, --csv, --markdown), --mlflow, and errors as JSON.
#pragma once
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/cli/report/mlflow.hpp"
#include "core/cli/options.hpp"

namespace fk {

// Writes pages and tables of a document: a file each for HTML and Markdown, and a folder for CSV;
// empty: not wanted.
void write_views(const Json& document, const std::string& html, const std::string& csv,
                 const std::string& markdown);

class TraceEvents;
// Writes a trace (core/report/trace_events.hpp) to a file.
void write_trace(const TraceEvents& events, const std::string& file);

// Writes to `file`; stdout for an empty name or "-". Unsafe characters become `?` (printable() of
// base/text.hpp).
void print_json(const Json& document, const std::string& file);

// Prints a part of a report for people, as wide as the terminal is.
void print_report(const std::string& text);

// Error when print_json() could not write this file: its folder is missing, the name is a folder's,
// or the user has no right. Makes nothing that stays. Call it before the work begins.
void need_writable(const std::string& file);

// The option --json of a verb. With a file, the document is written beside the report for people;
// without one it takes the report's place on the standard output. Views of the document are always
// beside the report. One object per process.
class JsonOutput {
 public:
  // This object outlives the parsing.
  void declare(const Options& app, const std::string& help =
                                       "write JSON: to a file beside the report, or in its place "
                                       "to the standard output");
  // Adds --html, --csv and --markdown, for a verb whose document has a view (report/views).
  void declare_views(const Options& app);
  // Adds --mlflow, for a verb whose results an MLflow server takes.
  void declare_mlflow(const Options& app);
  // A plugin, or a folder with plugins, of one part of the document, for MLflow; without an owner,
  // a file of all parts. The file may be written later, but before write().
  void attach(const std::string& owner, const std::filesystem::path& path);
  // True when a document is wanted, as JSON or as a view.
  bool given() const { return as_json() || !views_.empty(); }
  // True when a page is wanted.
  bool makes_page() const { return !views_.html.empty() || !views_.mlflow.empty(); }
  // False when JSON takes the report's place.
  bool with_report() const { return !as_json() || to_file(); }
  // Call it before the work begins, and before write(). Error as for need_writable().
  void open();
  // The word after --json when it is an argument of the verb and not a file. JSON then goes to the
  // standard output. Call it before open().
  std::string take_word();
  const std::string& word() const { return file_; }
  void write(const Json& document) const;

 private:
  struct Views {
    // Files, the folder of CSV files, and the address of a server; empty: not wanted.
    std::string html, csv, markdown, mlflow;
    bool empty() const { return html.empty() && csv.empty() && markdown.empty() && mlflow.empty(); }
  };
  bool as_json() const { return option_ && option_->given(); }
  bool to_file() const { return !file_.empty() && file_ != "-"; }
  std::string file_;
  Views views_;
  std::vector<MlflowFile> attached_;
  std::optional<Option> option_;
  bool open_ = false;
};

// Writes an error as a document (fk-host.error/1): to the file of --json if it was opened, else to
// the standard output.
void print_json_error(const std::string& verb, const std::exception& error, int exit_code);

}  // namespace fk
