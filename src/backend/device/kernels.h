// The device's answer to lowering: for each node, the text of the function that makes its results.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/device/writer.h"
#include "lower/kernels.h"
#include "windrow/error.h"

namespace wr::device {

using lower::View;

/// The generator does not know an op, or cannot write it for such sizes: the whole step goes elsewhere.
struct NotKnown : Error {
  using Error::Error;
};

/// A function as a program's calls know it by number; equal ones are one.
struct Function {
  std::vector<std::string> types;  // of its pointers p0, p1, ...: "WR_GLOBAL float*"
  std::string body;
};

class Kernels final : public lower::Kernels {
 public:
  explicit Kernels(const Form& form) : form_(form) {}
  const Form& form() const { return form_; }
  void make(const lower::Work& work, lower::Emitter& emit) override;
  void copy(const View& to, const View& from, lower::Emitter& emit) override;

  /// The number of a function whose pointers p0, p1, ... are the operands.
  int add(const std::vector<View>& operands, const std::string& body);
  /// Where a table of numbers stands among all of them, in elements.
  std::int64_t keep(const std::vector<std::int32_t>& numbers);

  const std::vector<Function>& functions() const { return functions_; }
  std::vector<std::int32_t>& tables() { return tables_; }
  bool wide() const { return wide_; }  // some element is f64

 private:
  Form form_;
  std::vector<Function> functions_;
  std::map<std::string, int> known_;
  std::vector<std::int32_t> tables_;
  std::map<std::vector<std::int32_t>, std::int64_t> known_tables_;
  bool wide_ = false;
};

/// Whether the generator has text for a node's op.
bool knows(const ir::Graph& graph, int node);

}  // namespace wr::device
