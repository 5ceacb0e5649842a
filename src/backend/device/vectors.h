// Vectors as text, for the form in which a work-group has one item. A vector of one element is a number.
#pragma once

#include <array>
#include <string>

#include "backend/device/writer.h"
#include "ir/op.h"

namespace wr::device {

std::string vector_type(DType dtype, int width);
std::string vector_load(int width, const std::string& pointer);
std::string vector_store(int width, const std::string& value, const std::string& pointer);
/// All elements equal.
std::string vector_of(DType dtype, int width, const std::string& x);

/// Two values made one as a reduction does.
std::string combine(ir::Op op, const std::string& a, const std::string& b);
/// value = value op all elements of a vector, by halves.
void fold_lanes(Writer& w, ir::Op op, DType dtype, int width, const std::string& vector, const std::string& value);
/// The sums of four vectors' elements, as a vector of four.
std::string sums_of_four(Writer& w, DType dtype, int width, std::array<std::string, 4> vectors);

}  // namespace wr::device
