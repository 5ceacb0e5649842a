// An automaton as a page that runs it: one file, nothing loaded from elsewhere.
#pragma once

#include <string>

#include "apps/automaton/automaton.h"

namespace wr::apps {

/// The trained circuit as JavaScript on words of 32 cells, and a grid to watch: pause, one step, speed, another start,
/// and a click or a drag wounds it.
std::string play_page(const TrainedAutomaton& trained, const std::string& title, std::int64_t height,
                      std::int64_t width);

}  // namespace wr::apps
