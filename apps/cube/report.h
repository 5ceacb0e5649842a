// What a cube looks like in a terminal, and a run on an HTML page.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/cube/cube.h"

namespace wr::apps {

/// The unfolded cube, a line a row: in colour, or the letters of the faces that the stickers belong to.
std::vector<std::string> cube_lines(const StickerCube<2>& cube, bool colour);

struct CubeReport {
  const CubeRun& run;
  const FullCensus& greedy;
  std::vector<std::pair<std::string, std::string>> machine;
};
std::string report_html(const CubeReport& report);
void write_report(const std::string& path, const CubeReport& report);

}  // namespace wr::apps
