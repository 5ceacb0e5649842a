// Gradients against finite differences: compiled steps, f64, four points, first and second order.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "windrow/windrow.h"

namespace wr::test {

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Checks the compiled function: its values against the interpreter, its gradients by every f64 argument
/// against finite differences, and, with order 2, the gradients of those gradients, and so on. The
/// relative error of a gradient must be below 1e-5.
testing::AssertionResult check_gradients(const Function& fn, const std::vector<Array>& arguments, int order = 2);
/// The same for a function of one result.
testing::AssertionResult check_gradient(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                                        const std::vector<Array>& arguments, int order = 2);

/// f64 numbers in [low, high], all at least 0.003 away from each other's kinks: from integers and halves, and from the
/// numbers of arrays with another `which`. An array of fewer than 49 (high - low) elements has no two equal ones.
Array smooth_array(const Shape& shape, int which = 0, double low = -2, double high = 2, unsigned seed = 1);

/// A function's results from one compiled run.
std::vector<Array> run_once(const Function& fn, const std::vector<Array>& arguments,
                            const CompileOptions& options = {});

/// f64 copies of the elements, whatever their type.
std::vector<double> numbers(const Array& a);

}  // namespace wr::test
