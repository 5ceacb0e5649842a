// `windrow ops`: every op as markdown. docs/ops.md is its output.
#pragma once

namespace wr::cli {

int ops();

}  // namespace wr::cli
