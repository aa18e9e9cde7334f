// SPDX-License-Identifier: Apache-2.0
#include "core/cli/manual.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  std::vector<const CLI::App*> out;
  for (const CLI::App* one : app.get_subcommands({}))
    if (!one->get_group().empty()) out.push_back(one);
  return out;
}

// Options with names; hidden ones are left out.
std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  std::vector<const CLI::Option*> out;
  for (const CLI::Option* one : app.get_options())
    if (!one->get_positional() && !one->get_group().empty()) out.push_back(one);
  return out;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// ---- troff ----

std::string troff(const std::string& text) {
  std::string out = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return replaced(replaced(out, "\n.", "\n\\&."), "\n'", "\n\\&'");
}

std::string option_lines(const CLI::App& app, const std::vector<std::string>& without) {
  std::string out;
  for (const CLI::Option* option : options_of(app)) {
    if (contains(without, option->get_lnames().empty() ? "" : option->get_lnames()[0])) continue;
    std::vector<std::string> names;
    for (const auto& name : option->get_snames())
      names.push_back("\\fB" + troff("-" + name) + "\\fR");
    for (const auto& name : option->get_lnames())
      names.push_back("\\fB" + troff("--" + name) + "\\fR");
    out += ".TP\n" + join(names, ", ") + (takes_value(*option) ? " \\fIVALUE\\fR" : "") + "\n" +
           troff(option->get_description()) + "\n";
  }
  return out;
}

std::string man_head(const CLI::App& root, const std::string& name, const std::string& summary) {
  return fmt::format(".TH {} 1 \"\" \"{}\"\n.SH NAME\n{} \\- {}\n", upper(name),
                     troff(root.version()), troff(name), troff(summary));
}

std::string program_page(const CLI::App& app) {
  std::string out = man_head(app, "fk-host", app.get_description()) +
                    ".SH SYNOPSIS\n.B fk\\-host\n\\fIVERB\\fR [\\fIOPTION\\fR...]\n.SH VERBS\n";
  for (const CLI::App* verb : verbs_of(app))
    out += ".TP\n.BR fk\\-host\\-" + troff(verb->get_name()) + " (1)\n" +
           troff(verb->get_description()) + "\n";
  return out + ".SH OPTIONS\n" + option_lines(app, {}) +
         ".SH EXIT STATUS\n0: success. 1: a judged plugin failed. 2: bad input. 3: the environment "
         "or a baseline failed.\n";
}

std::string verb_page(const CLI::App& root, const CLI::App& verb) {
  std::string arguments, words;
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = "\\fI" + troff(option->get_name(true)) + "\\fR";
    const bool many = option->get_items_expected_max() > 1;
    words += " " + (option->get_required() ? name : "[" + name + "]") + (many ? "..." : "");
    arguments += ".TP\n" + name + "\n" + troff(option->get_description()) + "\n";
  }
  std::string out = man_head(root, "fk-host-" + verb.get_name(), verb.get_description()) +
                    ".SH SYNOPSIS\n\\fBfk\\-host " + troff(verb.get_name()) +
                    "\\fR [\\fIOPTION\\fR...]" + words + "\n";
  if (!arguments.empty()) out += ".SH ARGUMENTS\n" + arguments;
  out += ".SH OPTIONS\n" + option_lines(verb, {}) + option_lines(root, {"help"});
  if (!verb.get_footer().empty()) out += ".SH NOTES\n" + troff(verb.get_footer()) + "\n";
  return out + ".SH SEE ALSO\n.BR fk\\-host (1)\n";
}

// ---- completions ----

// The text as a word of a shell.
std::string in_quotes(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::vector<std::string> option_words(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : options_of(app))
    for (const auto& name : option->get_lnames()) out.push_back("--" + name);
  return out;
}

// Options of a verb and of the program; after the verb, files.
std::string bash_completion(const CLI::App& app) {
  std::vector<std::string> verbs = {"help"};
  std::string cases;
  for (const CLI::App* verb : verbs_of(app)) {
    verbs.push_back(verb->get_name());
    cases += fmt::format("    {}) words=\"{} {}\" ;;\n", verb->get_name(),
                         join(option_words(*verb), " "), join(option_words(app), " "));
  }
  return fmt::format(
      "# bash completion of fk-host: fk-host --manual=bash\n"
      "_fk_host() {{\n"
      "  local current=\"${{COMP_WORDS[COMP_CWORD]}}\" words=\"\"\n"
      "  COMPREPLY=()\n"
      "  if [[ $COMP_CWORD -eq 1 || ($COMP_CWORD -eq 2 && ${{COMP_WORDS[1]}} == help) ]]; then\n"
      "    words=\"{} {}\"\n"
      "  else case \"${{COMP_WORDS[1]}}\" in\n"
      "{}"
      "  esac; fi\n"
      "  if [[ $COMP_CWORD -eq 1 || $current == -* || ${{COMP_WORDS[1]}} == help ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o default -F _fk_host fk-host\n",
      join(verbs, " "), join(option_words(app), " "), cases);
}

// "--name[what it does]:value:_files" of zsh's _arguments.
std::string zsh_argument(const CLI::Option& option, const std::string& name) {
  std::string about = option.get_description();
  for (const char* mark : {"\\", "[", "]", ":"})
    about = replaced(about, mark, std::string("\\") + mark);
  const std::string repeat = option.get_items_expected_max() > 1 ? "*" : "";
  return in_quotes(repeat + "--" + name + "[" + about + "]" +
                   (takes_value(option) ? ":value:_files" : ""));
}

std::string zsh_completion(const CLI::App& app) {
  std::string verbs, cases;
  for (const CLI::App* verb : verbs_of(app)) {
    verbs += "    " +
             in_quotes(verb->get_name() + ":" + replaced(verb->get_description(), ":", "\\:")) +
             "\n";
    cases += "    " + verb->get_name() + ") arguments=(\n";
    for (const CLI::App* from : {verb, &app})
      for (const CLI::Option* option : options_of(*from))
        for (const auto& name : option->get_lnames())
          if (from == verb || name != "help")
            cases += "      " + zsh_argument(*option, name) + "\n";
    cases += "    ) ;;\n";
  }
  return "#compdef fk-host\n# zsh completion of fk-host: fk-host --manual=zsh\n"
         "_fk_host() {\n  local -a verbs arguments\n  verbs=(\n" +
         verbs +
         "    'help:print the options of a verb'\n  )\n"
         "  if (( CURRENT == 2 )) || [[ CURRENT -eq 3 && $words[2] == help ]]; then\n"
         "    _describe 'verb' verbs\n    return\n  fi\n"
         "  case $words[2] in\n" +
         cases +
         "  esac\n  _arguments -S $arguments '*:argument:_files'\n}\n"
         "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _fk_host \"$@\"; else compdef "
         "_fk_host "
         "fk-host; fi\n";
}

std::string fish_completion(const CLI::App& app) {
  std::string out = "# fish completion of fk-host: fk-host --manual=fish\n";
  const auto add = [&](const CLI::App& from, const std::string& condition) {
    for (const CLI::Option* option : options_of(from))
      for (const auto& name : option->get_lnames())
        out += "complete -c fk-host" + condition + " -l " + name +
               (takes_value(*option) ? " -r" : "") + " -d " +
               in_quotes(replaced(option->get_description(), "\\", "\\\\")) + "\n";
  };
  add(app, "");
  for (const CLI::App* verb : verbs_of(app)) {
    out += "complete -c fk-host -f -n __fish_use_subcommand -a " + verb->get_name() + " -d " +
           in_quotes(verb->get_description()) + "\n";
    out += "complete -c fk-host -f -n '__fish_seen_subcommand_from help' -a " + verb->get_name() +
           "\n";
    add(*verb, " -n '__fish_seen_subcommand_from " + verb->get_name() + "'");
  }
  return out + "complete -c fk-host -f -n __fish_use_subcommand -a help\n";
}

}  // namespace

bool is_manual(std::string_view word) { return word.starts_with("--manual="); }

std::string manual_text(const CLI::App& app, const std::string& what) {
  if (what == "bash") return bash_completion(app);
  if (what == "zsh") return zsh_completion(app);
  if (what == "fish") return fish_completion(app);
  if (what == "man") return program_page(app);
  std::vector<std::string> known = {"bash", "zsh", "fish", "man", "verbs"};
  if (what == "verbs") {
    std::string out;
    for (const CLI::App* verb : verbs_of(app)) out += verb->get_name() + "\n";
    return out;
  }
  for (const CLI::App* verb : verbs_of(app)) {
    known.push_back("man:" + verb->get_name());
    if (what == known.back()) return verb_page(app, *verb);
  }
  fail("--manual", "there is no text `" + excerpt(what) + "`", did_you_mean(what, known));
}

}  // namespace fk
