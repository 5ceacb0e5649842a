#include "cli/line_editor.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "windrow/error.h"
#include "windrow/files.h"

namespace wr::cli {

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);  // plain chars have a sign on some machines only
  return std::isalnum(byte) || c == '_' || byte >= 0x80;
}

namespace {

constexpr std::size_t kMostHistory = 1000;
constexpr std::uint64_t kMostBytes = 1 << 20;

/// Keys that are no characters; those that are control characters keep their numbers.
enum Key : int { kUp = 1000, kDown, kLeft, kRight, kHome, kEnd, kDelete, kWordLeft, kWordRight, kUnknown, kClosed };
constexpr int control(char letter) { return letter & 0x1f; }

/// The terminal gives every key at once, unechoed, while this stands.
class RawMode {
 public:
  RawMode() : known_(tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!known_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  }
  ~RawMode() {
    if (known_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

 private:
  termios before_{};
  bool known_;
};

int read_byte() {
  unsigned char c = 0;
  ssize_t n = 0;
  while ((n = ::read(STDIN_FILENO, &c, 1)) < 0 && errno == EINTR) {
  }
  return n == 1 ? c : static_cast<int>(kClosed);
}

/// "ESC [ 1 ; 5 C" and its kin.
int read_escape() {
  const int first = read_byte();
  if (first == 'b') return kWordLeft;
  if (first == 'f') return kWordRight;
  if (first != '[' && first != 'O') return first == kClosed ? kClosed : kUnknown;
  std::string numbers;
  int c = read_byte();
  for (; (c >= '0' && c <= '9') || c == ';'; c = read_byte()) numbers += static_cast<char>(c);
  const bool with_control = numbers.ends_with(";5") || numbers.ends_with(";3");
  switch (c) {
    case 'A':
      return kUp;
    case 'B':
      return kDown;
    case 'C':
      return with_control ? kWordRight : kRight;
    case 'D':
      return with_control ? kWordLeft : kLeft;
    case 'H':
      return kHome;
    case 'F':
      return kEnd;
    case '~':
      return numbers == "3"                     ? kDelete
             : numbers == "1" || numbers == "7" ? kHome
             : numbers == "4" || numbers == "8" ? kEnd
                                                : kUnknown;
    case kClosed:
      return kClosed;
    default:
      return kUnknown;
  }
}

int read_key() {
  const int c = read_byte();
  return c == 27 ? read_escape() : c;
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }
std::size_t before(const std::string& text, std::size_t at) {
  if (at > 0) --at;
  while (at > 0 && continues(text[at])) --at;
  return at;
}
std::size_t after(const std::string& text, std::size_t at) {
  if (at < text.size()) ++at;
  while (at < text.size() && continues(text[at])) ++at;
  return at;
}
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}
std::size_t word_before(const std::string& text, std::size_t at) {
  while (at > 0 && !is_word(text[at - 1])) --at;
  while (at > 0 && is_word(text[at - 1])) --at;
  return at;
}
std::size_t word_after(const std::string& text, std::size_t at) {
  while (at < text.size() && !is_word(text[at])) ++at;
  while (at < text.size() && is_word(text[at])) ++at;
  return at;
}

std::size_t columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

void print(std::string_view text) {
  std::cout << text;
  std::cout.flush();
}

}  // namespace

/// A line on its way: the text, the cursor as a byte of it, and which line of the history it was.
struct LineEditor::Edited {
  std::string_view prompt;
  std::string text;
  std::size_t cursor = 0;
  std::size_t recalled;  // history_.size(): the new line
  std::string unfinished;

  void show() const {
    // Of a line wider than the terminal, the part round the cursor.
    std::size_t from = 0, to = text.size();
    const std::size_t room = columns() - width_of(prompt) - 1;
    while (width_of(std::string_view(text).substr(from, cursor - from)) >= room) from = after(text, from);
    while (width_of(std::string_view(text).substr(from, to - from)) > room) to = before(text, to);
    std::string line = "\r";
    line.append(prompt).append(text, from, to - from).append("\x1b[K\r");
    const std::size_t at = width_of(prompt) + width_of(std::string_view(text).substr(from, cursor - from));
    if (at > 0) line += "\x1b[" + std::to_string(at) + "C";
    print(line);
  }
  void replace(std::size_t from, std::size_t to, std::string_view by) {
    text.replace(from, to - from, by);
    cursor = from + by.size();
  }
};

LineEditor::LineEditor(std::string history_file, Complete complete)
    : file_(std::move(history_file)),
      complete_(std::move(complete)),
      terminal_(isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) {
  if (!terminal_ || file_.empty()) return;
  try {
    std::istringstream lines(read_file(file_, kMostBytes));
    for (std::string line; std::getline(lines, line);) history_.push_back(line);
  } catch (const Error&) {
    // The first time there is none.
  }
}

LineEditor::~LineEditor() {
  if (!changed_ || file_.empty()) return;
  try {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), ignored);
    std::string all;
    for (const std::string& line : history_) all += line + "\n";
    write_file(file_, all);
  } catch (const Error&) {
    // A history that cannot be kept is no reason to fail.
  }
}

LineEditor::Got LineEditor::read(std::string_view prompt, std::string& line) {
  if (terminal_) return edit(prompt, line);
  return std::getline(std::cin, line) ? Got::line : Got::end;
}

void LineEditor::remember(const std::string& line) {
  if (line.empty() || (!history_.empty() && history_.back() == line)) return;
  history_.push_back(line);
  if (history_.size() > kMostHistory) history_.erase(history_.begin());
  changed_ = true;
}

LineEditor::Got LineEditor::edit(std::string_view prompt, std::string& line) {
  const RawMode raw;
  Edited now{prompt, {}, 0, history_.size(), {}};
  now.show();
  for (;;) {
    const int key = read_key();
    const bool end = key == kClosed || (key == control('D') && now.text.empty());
    if (end || key == control('C') || key == '\r' || key == '\n') {
      now.cursor = now.text.size();
      now.show();
      print(key == control('C') ? "^C\r\n" : "\r\n");
      line = now.text;
      if (end) return Got::end;
      if (key == control('C')) return Got::interrupt;
      remember(line);
      return Got::line;
    }
    if (take(now, key)) now.show();
  }
}

/// False if nothing has changed on the screen.
bool LineEditor::take(Edited& now, int key) {
  const std::string& text = now.text;
  switch (key) {
    case kLeft:
    case control('B'):
      now.cursor = before(text, now.cursor);
      return true;
    case kRight:
    case control('F'):
      now.cursor = after(text, now.cursor);
      return true;
    case kWordLeft:
      now.cursor = word_before(text, now.cursor);
      return true;
    case kWordRight:
      now.cursor = word_after(text, now.cursor);
      return true;
    case kHome:
    case control('A'):
      now.cursor = 0;
      return true;
    case kEnd:
    case control('E'):
      now.cursor = text.size();
      return true;
    case 127:
    case control('H'):
      now.replace(before(text, now.cursor), now.cursor, "");
      return true;
    case kDelete:
    case control('D'):
      now.replace(now.cursor, after(text, now.cursor), "");
      return true;
    case control('K'):
      now.replace(now.cursor, text.size(), "");
      return true;
    case control('U'):
      now.replace(0, now.cursor, "");
      return true;
    case control('W'):
      now.replace(word_before(text, now.cursor), now.cursor, "");
      return true;
    case control('L'):
      print("\x1b[H\x1b[2J");
      return true;
    case kUp:
    case control('P'):
      recall(now, -1);
      return true;
    case kDown:
    case control('N'):
      recall(now, 1);
      return true;
    case '\t':
      complete_word(now);
      return true;
    default:
      if (key < 32 || key > 255) return false;
      now.replace(now.cursor, now.cursor, std::string(1, static_cast<char>(key)));
      return true;
  }
}

void LineEditor::recall(Edited& now, int by) {
  const std::size_t lines = history_.size();
  if ((by < 0 && now.recalled == 0) || (by > 0 && now.recalled == lines)) return;
  if (now.recalled == lines) now.unfinished = now.text;
  now.recalled = by < 0 ? now.recalled - 1 : now.recalled + 1;
  now.text = now.recalled == lines ? now.unfinished : history_[now.recalled];
  now.cursor = now.text.size();
}

/// As far as all candidates agree; where they part they are listed.
void LineEditor::complete_word(Edited& now) {
  std::size_t from = now.cursor;
  while (from > 0 && (is_word(now.text[from - 1]) || now.text[from - 1] == '@' || now.text[from - 1] == ':')) {
    --from;
    if (now.text[from] == '@' || now.text[from] == ':') break;
  }
  const std::string word = now.text.substr(from, now.cursor - from);
  std::vector<std::string> found;
  for (const std::string& candidate : complete_(word))
    if (candidate.starts_with(word)) found.push_back(candidate);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (found.empty()) return;
  const std::string &first = found.front(), &last = found.back();
  const auto parted = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first;
  const std::string common(first.begin(), parted);
  if (common.size() > word.size() || found.size() == 1) {
    now.replace(from, now.cursor, common);
    return;
  }
  std::string list = "\r\n";
  for (const std::string& each : found) list += each + "  ";
  print(list + "\r\n");
}

std::string state_file(const std::string& name) {
  const auto variable = [](const char* which) {
    const char* value = std::getenv(which);  // NOLINT(concurrency-mt-unsafe)
    return std::filesystem::path(value ? value : "");
  };
  const std::filesystem::path state = variable("XDG_STATE_HOME"), home = variable("HOME");
  if (!state.empty()) return state / "windrow" / name;
  return home.empty() ? "" : (home / ".local/state/windrow" / name).string();
}

}  // namespace wr::cli
