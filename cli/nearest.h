// The word that was probably meant.
#pragma once

#include <span>
#include <string>

namespace wr::cli {

/// Of `names` the one that takes the fewest changes to become: letters left out, put in, exchanged or in the wrong
/// order. Empty: none is near.
std::string nearest(const std::string& word, std::span<const std::string> names);

}  // namespace wr::cli
