#include "support/interpreting_backend.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "lower/lower.h"
#include "ops/interpret.h"

namespace wr::test {
namespace {

using ir::Elements;
using ir::Op;
using lower::View;

// ---- elements of a view ----

std::int64_t offset_of(const View& v, const Dims& index) {
  std::int64_t at = 0;
  for (int i = 0; i < index.rank(); ++i) at += index[i] * v.strides[i];
  return at * v.elem();
}

template <class T>
double read_one(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

template <class T>
void write_one(char* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

double read(DType dtype, const char* at) {
  switch (dtype) {
    case DType::f32:
      return read_one<float>(at);
    case DType::f64:
      return read_one<double>(at);
    case DType::i32:
      return read_one<std::int32_t>(at);
    case DType::u8:
    case DType::boolean:
      return read_one<std::uint8_t>(at);
  }
  return 0;
}

void write(DType dtype, char* at, double x) {
  switch (dtype) {
    case DType::f32:
      return write_one(at, static_cast<float>(x));
    case DType::f64:
      return write_one(at, x);
    case DType::i32:
      return write_one(at, static_cast<std::int32_t>(x));
    case DType::u8:
    case DType::boolean:
      return write_one(at, static_cast<std::uint8_t>(x));
  }
}

Elements load(const View& v, const void* memory) {
  Elements elements;
  ir::for_each_index(v.shape, [&](const Dims& index) {
    elements.push_back(read(v.dtype, static_cast<const char*>(memory) + offset_of(v, index)));
  });
  return elements;
}

void store(const View& v, void* memory, const Elements& elements, bool accumulate) {
  std::size_t i = 0;
  ir::for_each_index(v.shape, [&](const Dims& index) {
    char* at = static_cast<char*>(memory) + offset_of(v, index);
    write(v.dtype, at, elements[i++] + (accumulate ? read(v.dtype, at) : 0));
  });
}

// ---- kernels ----

using Kernel = std::function<void(void* const* ptr, std::int64_t row0)>;

/// One result of a node from views of its operands.
struct Making {
  std::shared_ptr<const ir::Graph> graph;
  lower::Work work;

  const ir::Node& node() const { return (*graph)[work.id]; }

  void run(void* const* ptr, std::int64_t row0) const {
    std::vector<Elements> in;
    for (std::size_t k = 0; k < work.in.size(); ++k) in.push_back(load(work.in[k], ptr[work.out.size() + k]));
    std::vector<Elements> results;  // all are read before any is written: a result may stand where an operand stands
    for (std::size_t r = 0; r < work.out.size(); ++r) results.push_back(result(static_cast<int>(r), in, ptr, row0));
    for (std::size_t r = 0; r < results.size(); ++r)
      store(work.out[r].view, ptr[r], results[r], work.out[r].accumulate);
  }

  Elements result(int number, const std::vector<Elements>& in, void* const* ptr, std::int64_t row0) const {
    const View& out = work.out[number].view;
    if (node().op == Op::lane_sum) return lane_sum(ptr);
    if (node().op == Op::iota) return iota(out, row0);
    const bool flat = work.cut.has_flat_strips();
    const auto shape_of = [&](const Shape& shape) { return flat ? Shape{shape.count()} : shape; };
    ir::Call call{node(), {}, {}, {out.dtype, shape_of(out.shape)}, number};
    for (std::size_t k = 0; k < in.size(); ++k) {
      call.specs.push_back({work.in[k].dtype, shape_of(work.in[k].shape)});
      call.in.push_back(&in[k]);
    }
    if (node().op == Op::neighbours || node().op == Op::neighbours_sum) return neighbours(call, out, row0);
    if ((node().op == Op::attention || node().op == Op::attention_grad) && work.cut == plan::Cut::along(1)) {
      ir::Node moved = node();  // the first query of the strip is not the first of all
      moved.attrs.ints = {moved.attrs.ints[0], moved.attrs.ints[1] + row0};
      return ir::evaluate_op({moved, call.specs, call.in, call.spec, number});
    }
    return ir::evaluate_op(call);
  }

  Elements lane_sum(void* const* ptr) const {
    Elements sum = ir::zeros(work.in[0].shape);
    for (int lane = 0; lane < work.lanes; ++lane) {
      const Elements part = load(work.in[0], static_cast<const char*>(ptr[1]) + lane * work.lane_bytes);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    return sum;
  }

  Elements iota(const View& out, std::int64_t row0) const {
    const int axis = static_cast<int>(node().attrs.ints[0]);
    const std::int64_t first = work.cut == plan::Cut::along(axis) ? row0 : 0;
    Elements elements;
    ir::for_each_index(out.shape,
                       [&](const Dims& index) { elements.push_back(static_cast<double>(first + index[axis])); });
    return elements;
  }

  /// Made whole, as any cell may need any other; the strip's cells are taken out.
  Elements neighbours(ir::Call call, const View& out, std::int64_t row0) const {
    call.spec = node().spec;
    const Elements whole = ir::evaluate_op(call);
    const std::int64_t first = work.cut.is_along() ? row0 : 0, cells = node().spec.shape[1];
    Elements elements;
    ir::for_each_index(out.shape,
                       [&](const Dims& index) { elements.push_back(whole[index[0] * cells + first + index[1]]); });
    return elements;
  }
};

class Kernels final : public lower::Kernels {
 public:
  void make(const lower::Work& work, lower::Emitter& emit) override {
    std::vector<View> views;
    for (const lower::Destination& to : work.out) views.push_back(to.view);
    views.insert(views.end(), work.in.begin(), work.in.end());
    add([making = Making{work.graph.shared_from_this(), work}](void* const* ptr,
                                                               std::int64_t row0) { making.run(ptr, row0); },
        views, ir::definition(work.node().op).name.data(), emit);
  }

  void copy(const View& to, const View& from, lower::Emitter& emit) override {
    add([to, from](void* const* ptr, std::int64_t) { store(to, ptr[0], load(from, ptr[1]), false); }, {to, from},
        "copy", emit);
  }

  const Kernel& operator[](int number) const { return kernels_[number]; }

 private:
  void add(Kernel kernel, const std::vector<View>& views, const char* name, lower::Emitter& emit) {
    emit.call(static_cast<int>(kernels_.size()), views, name);
    kernels_.push_back(std::move(kernel));
  }

  std::vector<Kernel> kernels_;
};

// ---- running ----

class Executor final : public backend::Executor {
 public:
  Executor(lower::Program program, std::unique_ptr<Kernels> kernels)
      : program_(std::move(program)), kernels_(std::move(kernels)) {
    const auto words = [](std::size_t bytes) { return (bytes + 7) / 8; };
    const auto lanes = static_cast<std::size_t>(program_.lanes);
    arena_.resize(words(program_.arena_bytes));
    partials_.resize(words(program_.partial_bytes) * lanes);
    scratch_.assign(lanes, std::vector<std::uint64_t>(words(program_.scratch_bytes)));
    bases_.assign(lanes, std::vector<char*>(static_cast<std::size_t>(program_.bases)));
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      bases_[lane][lower::kScratch] = reinterpret_cast<char*>(scratch_[lane].data());
      bases_[lane][lower::kPartial] = reinterpret_cast<char*>(partials_.data()) + lane * program_.partial_bytes;
      bases_[lane][lower::kPartials] = reinterpret_cast<char*>(partials_.data());
      bases_[lane][lower::kArena] = reinterpret_cast<char*>(arena_.data());
    }
  }

  const lower::Program& program() const override { return program_; }
  std::string_view target() const override { return "interpreter"; }
  void bind(int base, void* memory) noexcept override {
    for (auto& bases : bases_) bases[base] = static_cast<char*>(memory);
  }
  void reserve_threads(int) override {}
  void run(int) noexcept override {
    for (const auto& phase : program_.pieces)
      for (std::size_t lane = phase.size(); lane-- > 0;)  // in an order that threads would hardly take
        lower::for_each_run(phase[lane], [&](const lower::Piece& piece, std::int64_t turn) {
          run_calls(program_.codes[piece.code], bases_[lane], piece, turn);
        });
    run_calls(program_.commits, bases_[0], {}, 0);
  }
  void record(bool) override {}
  backend::Recorder* recorder() override { return nullptr; }

 private:
  void run_calls(const lower::CallList& list, const std::vector<char*>& bases, const lower::Piece& piece,
                 std::int64_t turn) const {
    const lower::Operand* o = list.operands.data();
    for (const lower::Call& call : list.calls) {
      std::vector<void*> ptr;
      for (int k = 0; k < call.operands; ++k, ++o)
        ptr.push_back(bases[static_cast<std::size_t>(o->base)] + o->offset + piece.row0 * o->advance +
                      piece.inner * o->inner + turn * o->step);
      (*kernels_)[call.kernel](ptr.data(), piece.row0);
    }
  }

  lower::Program program_;
  std::unique_ptr<Kernels> kernels_;
  std::vector<std::uint64_t> arena_, partials_;
  std::vector<std::vector<std::uint64_t>> scratch_;
  std::vector<std::vector<char*>> bases_;  // [lane][base]
};

}  // namespace

bool InterpretingBackend::can_run(const ir::Graph& graph, int node) const { return graph[node].op != Op::random; }

std::unique_ptr<backend::Executor> InterpretingBackend::prepare(const plan::Schedule& schedule) const {
  auto kernels = std::make_unique<Kernels>();
  lower::Program program = lower::lower(schedule, *kernels);
  return std::make_unique<Executor>(std::move(program), std::move(kernels));
}

}  // namespace wr::test
