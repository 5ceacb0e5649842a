// Kernel calls for one node: views that a kernel cannot step through are copied first, parameters are filled in.
#pragma once

#include <vector>

#include "backend/cpu/kernels.h"

namespace wr::cpu {

using lower::View;

class Chooser {
 public:
  Chooser(Kernels& kernels, const lower::Work& work, lower::Emitter& emit)
      : kernels_(kernels), work_(work), node_(work.node()), emit_(emit) {}
  void run();

 private:
  Target target() const { return kernels_.target(); }
  template <class Params>
  void call(void (*kernel)(const Params&, void* const*, std::int64_t), const Params& params,
            const std::vector<View>& operands, const char* name, unsigned in_place = 0) {
    expect_operands(operands.size());
    emit_.call(kernels_.bind(kernel, params), operands, name, in_place);
  }
  static void expect_operands(std::size_t count);
  void copy(const View& to, const View& from) { kernels_.copy(to, from, emit_); }
  View dense(const View& v);
  const char* name() const { return ir::definition(node_.op).name.data(); }

  // choose_ops.cpp
  void map(const View& out, std::vector<View> in);
  void update();
  void update_rows();
  void reduce();
  void lane_sum();
  void concat();
  void pad();
  void index();
  void window();
  void random();
  void iota();
  // choose_einsum.cpp, choose_contract.cpp, choose_conv.cpp, choose_gates.cpp, choose_rows.cpp, choose_attention.cpp
  void einsum();
  void contract();
  void conv();
  void rows();
  void attention();
  void gates();
  void neighbours();
  // choose_recurrent.cpp
  void recurrent();

  Kernels& kernels_;
  const lower::Work& work_;
  const ir::Node& node_;
  lower::Emitter& emit_;
};

}  // namespace wr::cpu
