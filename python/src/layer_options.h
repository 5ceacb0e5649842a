// Options that layers and ops share, as Python writes them.
#pragma once

#include <string>

#include "convert.h"

namespace wr::python {

/// 'same', 'valid' or a number of zeros.
Padding padding_from(nb::handle padding);
/// 'zero' or 'wrap'.
Border border_from(const std::string& border);

}  // namespace wr::python
