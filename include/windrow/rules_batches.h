// Programs of rules on batches: compiled once for some constants of one domain at a time, run on as many as there are.
//
//   wr::rules::Batches read(program, "Example", {"Image"}, {"Digit"}, {.batch = 256});
//   wr::Array digits = read.run({{"Image", images}}).at("Digit");
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "windrow/rules.h"
#include "windrow/step.h"

namespace wr::rules {

struct BatchOptions {
  std::int64_t batch = 256;
  std::optional<Semantics> semantics = {};
  DType dtype = DType::f32;
  CompileOptions compile = {};
};

/// The relations and tensors whose first index is of a domain, and which have no rules of their own.
std::vector<std::string> in_domain(const Program& program, const std::string& domain);

class Batches {
 public:
  /// A domain that is declared with a size (domain Example = 1000) has the batch's size instead. Inputs and results
  /// are relations or tensors whose first index, and no other, is of that domain: a row each for every constant. What
  /// has none of it stays as the program has it.
  Batches(const Program& program, const std::string& domain, std::vector<std::string> inputs,
          std::vector<std::string> results, const BatchOptions& options = {});
  Batches(Batches&&) noexcept;
  ~Batches();

  std::int64_t batch() const;
  /// All rows; the cores share each batch.
  std::map<std::string, Array> run(const std::map<std::string, Array>& inputs);

  /// So many rows of each input, from `first` on, in the inputs' order.
  using Load = std::function<std::vector<Array>(std::int64_t first, std::int64_t count)>;
  /// The same rows of each result, in the results' order. The arrays are reused after the call.
  using Take = std::function<void(std::int64_t first, const std::vector<Array>& results)>;
  /// The next batch is loaded, on a thread of its own, while one is computed. What `load` throws, run() throws.
  void run(std::int64_t rows, const Load& load, const Take& take);

  /// The step for whole batches: profiles, facts.
  Step& step();
  /// What an input must be, with a whole batch of rows.
  const Spec& input_spec(std::size_t input) const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace wr::rules
