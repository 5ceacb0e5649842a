// Lines typed by a person: editing, history and completion on a terminal; plain lines where there is none.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace wr::cli {

/// Whether a byte is part of a word: letters, digits, _ and all of a character beyond ASCII.
bool is_word(char c);

class LineEditor {
 public:
  /// What could stand in place of the word before the cursor.
  using Complete = std::function<std::vector<std::string>(std::string_view word)>;
  enum class Got { line, interrupt, end };

  /// The file, which need not exist, keeps what was typed for the next time; "": nothing does.
  LineEditor(std::string history_file, Complete complete);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  bool on_terminal() const { return terminal_; }
  /// The next line, without its end. Prompts only on a terminal.
  Got read(std::string_view prompt, std::string& line);

 private:
  struct Edited;
  Got edit(std::string_view prompt, std::string& line);
  bool take(Edited& now, int key);
  void recall(Edited& now, int by);
  void complete_word(Edited& now);
  void remember(const std::string& line);

  std::string file_;
  Complete complete_;
  bool terminal_, changed_ = false;
  std::vector<std::string> history_;
};

/// Where a program keeps what it remembers between runs: $XDG_STATE_HOME/windrow/NAME, else in the home folder; "" if
/// there is none.
std::string state_file(const std::string& name);

}  // namespace wr::cli
