// Matrix products as text: C[m, n] (+)= sum over k of A[m, k] B[k, n], with loops round it and more than one k.
#pragma once

#include <string>
#include <vector>

#include "backend/device/writer.h"

namespace wr::device {

/// Something a product runs along: how many, and how far apart in each operand, in elements.
struct Along {
  std::int64_t size = 1, a = 0, b = 0, c = 0;
};

struct Product {
  DType dtype = DType::f32;
  std::vector<Along> batch, rows, columns, inner;
  std::string a, b, c;                 // pointers
  std::string a_type, b_type, c_type;  // "WR_GLOBAL float*"
  bool accumulate = false;
};

/// Scratch stands in local memory where the form says so.
std::string pointer_type(const Form& form, const lower::View& view);

/// Writes the stages of a product. Sums are in a fixed order.
void write_product(Writer& w, Product product);

}  // namespace wr::device
