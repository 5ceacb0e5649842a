// Moves as text.
#include <fmt/format.h>

#include "apps/cube/pocket_cube.h"
#include "windrow/error.h"

namespace wr::apps {
namespace {
constexpr std::string_view kLetters = "RUFLDB";
}

std::vector<std::uint8_t> parse_moves(std::string_view text, int moves) {
  const std::string_view letters = kLetters.substr(0, static_cast<std::size_t>(moves / 2));
  std::vector<std::uint8_t> list;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == ' ' || text[i] == '\t' || text[i] == '\n') {
      ++i;
      continue;
    }
    const std::size_t face = letters.find(text[i]);
    if (face == std::string_view::npos) {
      throw Error(
          fmt::format("moves: '{}' at character {} of \"{}\" is no move; expected one of {}, then ' or 2 or nothing",
                      text[i], i + 1, text, fmt::join(letters, " ")));
    }
    ++i;
    const bool back = i < text.size() && text[i] == '\'', twice = i < text.size() && text[i] == '2';
    i += back || twice;
    list.insert(list.end(), twice ? 2 : 1, static_cast<std::uint8_t>(2 * face + back));
  }
  return list;
}

std::string print_moves(std::span<const std::uint8_t> moves) {
  std::string text;
  for (const std::uint8_t m : moves) {
    if (!text.empty()) text += ' ';
    text += kLetters[m / 2];
    if (m % 2) text += '\'';
  }
  return text;
}

std::vector<std::uint8_t> inverse(std::span<const std::uint8_t> moves) {
  std::vector<std::uint8_t> back;
  for (std::size_t i = moves.size(); i-- > 0;) back.push_back(moves[i] ^ 1);
  return back;
}

std::vector<std::uint8_t> scramble(int length, int moves, Rng& rng) {
  std::vector<std::uint8_t> list;
  while (static_cast<int>(list.size()) < length) {
    const auto m = static_cast<std::uint8_t>(rng.below(static_cast<std::uint64_t>(moves)));
    if (list.empty() || m != (list.back() ^ 1)) list.push_back(m);
  }
  return list;
}

}  // namespace wr::apps
