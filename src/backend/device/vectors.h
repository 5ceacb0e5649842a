// Vectors as text, for the form in which a work-group has one item. A vector of one element is a number.
#pragma once

#include <string>

#include "windrow/dtype.h"

namespace wr::device {

std::string vector_type(DType dtype, int width);
std::string vector_load(int width, const std::string& pointer);
std::string vector_store(int width, const std::string& value, const std::string& pointer);
/// All elements equal.
std::string vector_of(DType dtype, int width, const std::string& x);

}  // namespace wr::device
