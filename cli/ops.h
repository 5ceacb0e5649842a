// `windrow ops`: every op as markdown, or as JSON. docs/ops.md is its output.
#pragma once

namespace wr::cli {

int ops(bool json);

}  // namespace wr::cli
