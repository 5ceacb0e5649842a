// The functions of one node: what each family of ops writes.
#pragma once

#include <string>
#include <vector>

#include "backend/device/kernels.h"
#include "backend/device/product.h"

namespace wr::device {

class Chooser {
 public:
  Chooser(Kernels& kernels, const lower::Work& work, lower::Emitter& emit)
      : kernels_(kernels), work_(work), node_(work.node()), emit_(emit) {}
  void run();

  using Family = void (Chooser::*)();
  static Family family_of(ir::Op op);

 private:
  using Operands = std::vector<View>;
  using Body = std::function<void(Writer&)>;

  const Form& form() const { return kernels_.form(); }
  const char* name() const { return ir::definition(node_.op).name.data(); }
  /// Writes a function over the operands and calls it.
  void call(const Operands& operands, const Body& body, unsigned in_place = 0);
  void copy(const View& to, const View& from) { kernels_.copy(to, from, emit_); }
  View dense(const View& v);
  const View& out(std::size_t k = 0) const { return work_.out[k].view; }
  const View& in(std::size_t k = 0) const { return work_.in[k]; }
  /// Results, then operands.
  Operands all() const;
  bool empty() const;

  // map.cpp
  void map();
  void update();
  void lane_sum();
  void concat();
  void pad();
  void iota();
  void random();
  // reduce.cpp
  void reduce();
  void arg();
  void rows();
  // product.cpp
  void einsum();
  /// c, a, b.
  void product(const Operands& operands, Product p, bool accumulate, std::int64_t a_offset = 0);
  // contract.cpp
  void contract();
  // window.cpp
  void window();
  void max_pool();
  void conv();
  /// The image in zeros of so many rows and columns, its pixels `apart` from (top, left) on; itself where that is it.
  View framed(const View& image, std::int64_t height, std::int64_t width, std::int64_t top, std::int64_t left,
              std::int64_t apart_h, std::int64_t apart_w);
  // index.cpp
  void index();
  void update_rows();
  // gates.cpp
  void gates();
  void gates_grad();
  void neighbours();
  // sequence.cpp
  void lstm();
  void lstm_grad();
  void gru();
  void gru_grad();
  void attention();
  void attention_grad();

  Kernels& kernels_;
  const lower::Work& work_;
  const ir::Node& node_;
  lower::Emitter& emit_;
};

}  // namespace wr::device
