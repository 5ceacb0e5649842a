#include "cli/nearest.h"

#include <algorithm>
#include <vector>

namespace wr::cli {
namespace {

/// Letters left out, put in, exchanged, or in the wrong order (optimal string alignment).
std::size_t changes(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest(const std::string& word, std::span<const std::string> names) {
  constexpr std::size_t kLongest = 64;  // no name of ours is longer
  std::string best;
  std::size_t least = std::min<std::size_t>(3, 1 + word.size() / 4) + 1;
  if (word.size() > kLongest) return best;
  for (const std::string& name : names)
    if (const std::size_t n = changes(word, name); n < least) {
      least = n;
      best = name;
    }
  return best;
}

}  // namespace wr::cli
