// `windrow doctor`: what was detected and chosen.
#pragma once

namespace wr::cli {

int doctor();

}  // namespace wr::cli
