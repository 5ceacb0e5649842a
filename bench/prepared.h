// A training step as a benchmark case: compiled under its name, checked by the oracle.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/case.h"

namespace wr::bench {

template <class Fn, class... Specs>
Prepared prepared(int threads, const std::string& name, std::vector<Array> arguments, double tolerance, Fn fn,
                  const Specs&... specs) {
  CompileOptions options;
  options.threads = threads;
  options.name = name;
  Prepared p{compile(options, fn, specs...), std::move(arguments), {}, 0};
  p.check = [tolerance](Step& s, const std::vector<Array>& a) { return check_by_oracle(s, a, tolerance); };
  p.bytes = compulsory_bytes(p.step, p.arguments);
  return p;
}

/// Steps of one kind in several sizes: `name_wWIDTH_bBATCH`.
struct Family {
  const char* name;
  const char* what;
  Prepared (*prepare)(int threads, std::int64_t batch, std::int64_t width);
  std::int64_t batch;      // of the case in the list
  std::int64_t width = 0;  // of the hidden layer; 0: fixed
};

/// Models of many kinds that people train (families.cpp).
std::vector<Family> model_families();
/// 4 heads of 64 columns, forward and back (attention.cpp).
Prepared attention_case(int threads, std::int64_t batch, std::int64_t length);

}  // namespace wr::bench
