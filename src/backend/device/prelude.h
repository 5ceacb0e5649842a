// What every generated source begins with: the names that differ between dialects, and functions of our own.
#pragma once

#include <string>

#include "backend/device/writer.h"

namespace wr::device {

/// `wide`: the source has f64.
std::string prelude(const Form& form, bool wide);

}  // namespace wr::device
