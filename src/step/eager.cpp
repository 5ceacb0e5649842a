// The cache of eager plans and the call of one: bind pointers, run. Each thread has a cache of its own, because a
// plan's scratch can serve only one run at a time and a lock would cost more than a small op.
#include "step/eager.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/target.h"
#include "base/array_walk.h"
#include "step/inside.h"

namespace wr::eager {

using detail::ArrayAccess;

void Attribute::append_to(std::vector<std::uint64_t>& key) const {
  if (dims_) {
    key.push_back(static_cast<std::uint64_t>(dims_->rank()));
    for (auto n : *dims_) key.push_back(static_cast<std::uint64_t>(n));
  } else if (is_text_) {
    key.push_back(text_.size());
    for (std::size_t i = 0; i < text_.size(); i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text_.data() + i, std::min(sizeof word, text_.size() - i));
      key.push_back(word);
    }
  } else {
    key.push_back(word_);
  }
}

namespace {

using Key = std::vector<std::uint64_t>;

// Plans of one thread may hold this much scratch before they are all dropped.
constexpr std::size_t kMostBytes = std::size_t{256} << 20;

struct Plan {
  Key key;
  std::uint64_t hash;
  std::unique_ptr<Step::Inside> step;
  backend::Executor* executor;
  int threads;
  Spec result;
  DType number_type;
  std::vector<int> base;  // one an operand; -1 for a number that is part of the plan
  int output_base;
  std::unique_ptr<std::uint64_t[]> numbers;  // one an operand
  std::size_t bytes;
};

std::uint64_t hash_of(const Key& key) {
  std::uint64_t h = 0x9E3779B97F4A7C15u;
  for (std::uint64_t word : key) {
    h = (h ^ word) * 0x9FB21C651E98DF25u;
    h ^= h >> 32;
  }
  return h;
}

/// The type that numbers take: that of the first array, as for traced ops.
DType type_for_numbers(const Call& call, Operands operands) {
  for (std::size_t i = static_cast<std::size_t>(call.typed_from); i < operands.size(); ++i)
    if (operands[i].array) return operands[i].array->dtype();
  return DType::f32;
}

void make_key(Key& key, const Call& call, Operands operands, Attributes attributes) {
  key.clear();
  // Two pieces of text with different contents never have the same address, so the name's address is the op's.
  key.push_back(reinterpret_cast<std::uintptr_t>(call.name));
  key.push_back(static_cast<std::uint64_t>(cpu::active_target()) << 48 | attributes.size() << 32 | operands.size());
  for (const ArrayOperand& operand : operands) {
    if (!operand.array) {
      key.push_back(call.constant_numbers ? 2 : 1);
      if (call.constant_numbers) key.push_back(std::bit_cast<std::uint64_t>(operand.number));
      continue;
    }
    const Shape& shape = operand.array->shape();
    key.push_back(static_cast<std::uint64_t>(operand.array->dtype()) << 16 | static_cast<std::uint64_t>(shape.rank())
                                                                                 << 8);
    for (auto n : shape) key.push_back(static_cast<std::uint64_t>(n));
  }
  for (const Attribute& attribute : attributes) attribute.append_to(key);
}

std::unique_ptr<Plan> make_plan(Key key, const Call& call, Operands operands, Trace trace) {
  const DType number_type = type_for_numbers(call, operands);
  std::vector<Spec> specs;
  std::vector<int> position;  // of each operand among the step's arguments
  for (const ArrayOperand& operand : operands) {
    const bool constant = !operand.array && call.constant_numbers;
    position.push_back(constant ? -1 : static_cast<int>(specs.size()));
    if (!constant)
      specs.push_back(operand.array ? Spec{operand.array->dtype(), operand.array->shape()} : Spec{number_type, {}});
  }
  const auto traced = [&](const std::vector<Tensor>& arguments) {
    std::vector<Operand> in;
    for (std::size_t i = 0; i < operands.size(); ++i)
      in.push_back(position[i] < 0 ? Operand(operands[i].number, call.where)
                                   : Operand(arguments[position[i]], call.where));
    return std::vector<Tensor>{trace(in)};
  };
  auto plan = std::make_unique<Plan>();
  CompileOptions options;
  options.device = "cpu";  // a plan a call: not worth a device
  options.name = call.name;
  plan->step = wr::make_plan(traced, specs, options, call.where);
  Step::Inside& inside = *plan->step;
  inside.outputs.clear();  // results go to the caller's memory
  const lower::Program& program = inside.executor->program();
  plan->hash = hash_of(key);
  plan->key = std::move(key);
  plan->executor = inside.executor.get();
  plan->threads = std::min(inside.threads, program.lanes);
  plan->result = (*inside.graph)[inside.graph->outputs[0]].spec;
  plan->number_type = number_type;
  plan->output_base = program.output_base[0];
  plan->numbers = std::make_unique<std::uint64_t[]>(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    plan->base.push_back(position[i] < 0 ? -1 : program.input_base[position[i]]);
    if (!operands[i].array && plan->base[i] >= 0) plan->executor->bind(plan->base[i], &plan->numbers[i]);
  }
  plan->bytes = inside.facts.peak_bytes();
  return plan;
}

/// Open addressing over plans that are never removed one by one: a full cache begins anew, which costs little spread
/// over the thousand compilations that filled it.
class Cache {
 public:
  Plan& find(const Call& call, Operands operands, Attributes attributes, Trace trace) {
    make_key(key_, call, operands, attributes);
    const std::uint64_t hash = hash_of(key_);
    for (std::size_t slot = hash % kSlots; slots_[slot]; slot = (slot + 1) % kSlots)
      if (slots_[slot]->hash == hash && slots_[slot]->key == key_) return *slots_[slot];
    return insert(make_plan(key_, call, operands, trace));
  }

  CacheFacts facts() const { return {plans_.size(), bytes_}; }

 private:
  static constexpr std::size_t kSlots = 4 * kMostPlans;

  Plan& insert(std::unique_ptr<Plan> plan) {
    if (plans_.size() == kMostPlans || bytes_ + plan->bytes > kMostBytes) {
      slots_.assign(kSlots, nullptr);
      plans_.clear();
      bytes_ = 0;
    }
    std::size_t slot = plan->hash % kSlots;
    while (slots_[slot]) slot = (slot + 1) % kSlots;
    bytes_ += plan->bytes;
    plans_.push_back(std::move(plan));
    slots_[slot] = plans_.back().get();
    return *plans_.back();
  }

  Key key_;  // kept, so that a lookup allocates nothing
  std::vector<Plan*> slots_ = std::vector<Plan*>(kSlots, nullptr);
  std::vector<std::unique_ptr<Plan>> plans_;
  std::size_t bytes_ = 0;
};

Cache& cache() {
  thread_local Cache instance;
  return instance;
}

/// Binds the operands from number i on and runs. What is strided is copied first; recursion keeps the copies alive.
void bind_and_run(Plan& plan, const Call& call, Operands operands, std::size_t i) {
  for (; i < operands.size(); ++i) {
    if (plan.base[i] < 0) continue;
    const Array* array = operands[i].array;
    if (!array) {
      detail::with_type(plan.number_type, [&]<class T>() {
        const T number = detail::convert<T>(operands[i].number);
        std::memcpy(&plan.numbers[i], &number, sizeof number);
      });
    } else if (array->is_contiguous()) {
      plan.executor->bind(plan.base[i], const_cast<void*>(ArrayAccess::read(*array)));
    } else {
      const Array dense = array->contiguous(call.where);
      plan.executor->bind(plan.base[i], const_cast<void*>(ArrayAccess::read(dense)));
      return bind_and_run(plan, call, operands, i + 1);
    }
  }
  plan.executor->run(plan.threads);
}

/// True if writing the result to the (dense) destination could change what is still to be read of this operand.
bool in_the_way(const Call& call, const Array& dst, const Array& operand) {
  if (!operand.is_contiguous()) return false;  // it is copied first
  const auto* begin = static_cast<const char*>(ArrayAccess::read(operand));
  const auto* out = static_cast<const char*>(ArrayAccess::read(dst));
  if (begin >= out + dst.bytes() || out >= begin + operand.bytes()) return false;
  return !(call.elementwise && ArrayAccess::same_elements(dst, operand));
}

void run(Plan& plan, Array& dst, const Call& call, Operands operands) {
  if (dst.count() == 0) return;
  // First of all: it may give dst other memory, also where dst is an operand.
  void* out = ArrayAccess::write(dst, call.name, call.where);
  bool direct = dst.is_contiguous();
  for (const ArrayOperand& operand : operands)
    if (direct && operand.array) direct = !in_the_way(call, dst, *operand.array);
  if (direct) {
    plan.executor->bind(plan.output_base, out);
    bind_and_run(plan, call, operands, 0);
  } else {
    Array result = Array::empty(plan.result.shape, plan.result.dtype, call.where);
    plan.executor->bind(plan.output_base, ArrayAccess::write_shared(result));
    bind_and_run(plan, call, operands, 0);
    dst.copy_from(result, call.where);
  }
}

}  // namespace

void into(Array& dst, const Call& call, Operands operands, Attributes attributes, Trace trace) {
  Plan& plan = cache().find(call, operands, attributes, trace);
  if (dst.dtype() != plan.result.dtype || !(dst.shape() == plan.result.shape))
    fail(call.where, std::string(call.name) + ": the result is " + to_string(plan.result) + ", the destination " +
                         to_string(Spec{dst.dtype(), dst.shape()}));
  run(plan, dst, call, operands);
}

Array value(const Call& call, Operands operands, Attributes attributes, Trace trace) {
  Plan& plan = cache().find(call, operands, attributes, trace);
  Array result = Array::empty(plan.result.shape, plan.result.dtype, call.where);
  run(plan, result, call, operands);
  return result;
}

CacheFacts cache_facts() { return cache().facts(); }

}  // namespace wr::eager
