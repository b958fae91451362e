#include "completion.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace microscale {
namespace {

using Commands = std::vector<CommandShape>;
using Arguments = std::vector<ArgumentShape>;

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

// In single quotes: bash and zsh end the quotes for an apostrophe, fish escapes it.
std::string in_quotes(std::string_view text, bool fish = false) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += fish ? "\\'" : "'\\''";
    else if (c == '\\' && fish)
      out += "\\\\";
    else
      out += c;
  }
  return out + "'";
}

std::string option_names(const Arguments& options) {
  std::string words;
  for (const ArgumentShape& option : options)
    for (const std::string& name : option.names) words += (words.empty() ? "" : " ") + name;
  return words;
}

std::string bash_script(std::string_view program, const Commands& commands,
                        const Arguments& global) {
  std::string values, words, positionals, names;
  for (const CommandShape& command : commands) {
    names += command.name + " ";
    for (const ArgumentShape& option : command.options) {
      if (!option.takes_value) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) patterns.push_back(command.name + "\\ " + name);
      values += fmt::format("    {}) ", joined(patterns, "|"));
      if (!option.choices.empty())
        values += fmt::format("choices={} ;;\n", in_quotes(joined(option.choices, " ")));
      else
        values += option.is_path ? "kind=path ;;\n" : "kind=anything ;;\n";
    }
    words += fmt::format("      {}) choices={} ;;\n", command.name,
                         in_quotes(option_names(command.options)));
    std::vector<std::string> choices;
    bool path = false;
    for (const ArgumentShape& positional : command.positionals) {
      choices.insert(choices.end(), positional.choices.begin(), positional.choices.end());
      path = path || positional.is_path;
    }
    if (!choices.empty() || path)
      positionals += fmt::format("      {}) choices={} {};;\n", command.name,
                                 in_quotes(joined(choices, " ")), path ? "kind=path " : "");
  }
  // bash takes --option=value apart at the '='.
  return fmt::format(R"(# bash completion for {0}; load it with: source <({0} completion bash)
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local command=${{COMP_WORDS[1]}} choices= kind= IFS=$' \t\n'
  if [[ $current == '=' ]]; then current=
  elif [[ $previous == '=' ]]; then previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  COMPREPLY=()
  if (( COMP_CWORD == 1 )); then
    choices={1}
    [[ $current == -* ]] && choices={2}
    COMPREPLY=($(compgen -W "$choices" -- "$current"))
    return
  fi
  case "$command $previous" in
{3}  esac
  if [[ -z $choices && -z $kind ]]; then
    if [[ $current == -* ]]; then
      case $command in
{4}      esac
    else
      case $command in
{5}      esac
    fi
  fi
  [[ -n $choices ]] && COMPREPLY=($(compgen -W "$choices" -- "$current"))
  if [[ $kind == path ]]; then
    compopt -o filenames 2>/dev/null
    IFS=$'\n'
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}}
complete -F _{0} {0}
)",
                     program, in_quotes(names.substr(0, names.size() - 1)),
                     in_quotes(option_names(global)), values, words, positionals);
}

// A description inside _arguments: brackets and colons mean something there.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const ArgumentShape& argument) {
  if (!argument.choices.empty()) return ":value:(" + joined(argument.choices, " ") + ")";
  return argument.is_path ? ":path:_files" : ":value:";
}

std::string zsh_options(const Arguments& options, std::string_view indent) {
  std::string text;
  for (const ArgumentShape& option : options)
    for (const std::string& name : option.names)
      text += fmt::format(" \\\n{}{}", indent,
                          in_quotes(fmt::format("*{}[{}]{}", name, zsh_text(option.description),
                                                option.takes_value ? zsh_action(option) : "")));
  return text;
}

std::string zsh_script(std::string_view program, const Commands& commands,
                       const Arguments& global) {
  std::string names, cases;
  for (const CommandShape& command : commands) {
    names +=
        fmt::format("      {}\n", in_quotes(command.name + ":" + zsh_text(command.description)));
    std::string arguments = zsh_options(command.options, "        ");
    for (const ArgumentShape& positional : command.positionals)
      arguments += fmt::format(" \\\n        {}", in_quotes("*" + zsh_action(positional)));
    cases += fmt::format("    {}) _arguments{} ;;\n", command.name, arguments);
  }
  return fmt::format(R"(#compdef {0}
# zsh completion for {0}; load it with: source <({0} completion zsh)
_{0}() {{
  if (( CURRENT == 2 )); then
    if [[ $words[2] == -* ]]; then
      _arguments{1}
    else
      local -a commands=(
{2}      )
      _describe command commands
    fi
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{3}  esac
}}
if [[ $funcstack[1] == _{0} ]]; then
  _{0} "$@"
else
  (( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}
  compdef _{0} {0}
fi
)",
                     program, zsh_options(global, "        "), names, cases);
}

std::string fish_option(std::string_view program, const std::string& condition,
                        const ArgumentShape& option) {
  std::string line = fmt::format("complete -c {} -n {}", program, in_quotes(condition, true));
  for (const std::string& name : option.names)
    line += name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.takes_value) line += option.is_path ? " -r -F" : " -x";
  if (!option.choices.empty()) line += " -a " + in_quotes(joined(option.choices, " "), true);
  return line + " -d " + in_quotes(option.description, true) + "\n";
}

std::string fish_script(std::string_view program, const Commands& commands,
                        const Arguments& global) {
  std::string text = fmt::format(
      "# fish completion for {0}; load it with: {0} completion fish | source\n"
      "complete -c {0} -f\n",
      program);
  for (const ArgumentShape& option : global)
    text += fish_option(program, "__fish_use_subcommand", option);
  for (const CommandShape& command : commands) {
    text += fmt::format("complete -c {} -n __fish_use_subcommand -a {} -d {}\n", program,
                        command.name, in_quotes(command.description, true));
    const std::string condition = "__fish_seen_subcommand_from " + command.name;
    for (const ArgumentShape& option : command.options)
      text += fish_option(program, condition, option);
    for (const ArgumentShape& positional : command.positionals) {
      if (positional.is_path)
        text += fmt::format("complete -c {} -n {} -F\n", program, in_quotes(condition, true));
      if (!positional.choices.empty())
        text += fmt::format("complete -c {} -n {} -a {}\n", program, in_quotes(condition, true),
                            in_quotes(joined(positional.choices, " "), true));
    }
  }
  return text;
}

}  // namespace

std::string completion_script(std::string_view shell, std::string_view program,
                              const Commands& commands, const Arguments& global_options) {
  if (shell == "bash") return bash_script(program, commands, global_options);
  if (shell == "zsh") return zsh_script(program, commands, global_options);
  if (shell == "fish") return fish_script(program, commands, global_options);
  return {};
}

}  // namespace microscale
