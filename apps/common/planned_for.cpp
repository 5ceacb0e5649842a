#include "apps/common/planned_for.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/common/metadata.h"
#include "windrow/text.h"

namespace wr::apps {

Resumed resumed(const Metadata& metadata, const std::string& path) {
  constexpr std::int64_t kMostLanes = 256;  // they share out memory; no machine of ours has so many cores
  const MetadataReader file(metadata, path);
  const auto lanes = static_cast<int>(file.whole("lanes", 1, kMostLanes));
  if (!metadata.contains("machine") || !metadata.contains("simd"))
    return {{.lanes = lanes}, "it does not say for which machine its plans were made: the last bits may differ"};
  const std::string& simd = file.text("simd");
  const auto here = simd_targets();
  if (std::find(here.begin(), here.end(), simd) == here.end())
    return {{},
            fmt::format("it was trained with {}, this machine has {}: the last bits differ from here on",
                        text::printable(simd), fmt::join(here, ", "))};
  return {{lanes, file.text("machine"), simd}, ""};
}

Resumed resumed(const std::string& path) {
  return path.empty() ? Resumed{} : resumed(read_safetensors_header(path).metadata, path);
}

void write_plan(Metadata& metadata, const Step& step) {
  const PlannedFor plan = planned_for(step);
  metadata["lanes"] = std::to_string(plan.lanes);
  metadata["machine"] = plan.machine;
  metadata["simd"] = plan.simd;
}

CompileOptions compile_options(const std::string& name, int threads, const PlannedFor& plan) {
  return {.name = name, .threads = threads, .lanes = plan.lanes, .simd = plan.simd, .machine = plan.machine};
}

}  // namespace wr::apps
