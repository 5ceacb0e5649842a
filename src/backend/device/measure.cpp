#include "backend/device/measure.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>

#include "backend/device/backend.h"
#include "backend/device/devices.h"
#include "backend/device/product.h"

namespace wr::device {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// One kernel that has all probes; the tables say which of them a lane runs, and how often.
class Probes {
 public:
  static constexpr std::int64_t kCopied = 2048, kSide = 64;

  Probes(const Form& form, int lanes, bool f64) : kernels_(form) {
    program_.lanes = lanes;
    program_.bases = lower::kFirstLeaf;
    map("p1[0] + 1.0f", 1);
    map("-p1[i]", kCopied);
    map(formula(ops::Elementwise::exp, DType::f32, {"p1[i]"}), kCopied);
    product(DType::f32, kSide);
    product(DType::f32, 1);
    if (f64) product(DType::f64, kSide / 2);
    // Places for all rounds of all lanes.
    for (std::int64_t i = 0; i < most_rounds(); ++i)
      pieces_.push_back({static_cast<int>(i % static_cast<std::int64_t>(program_.codes.size())), 0, 0});
    program_.pieces = {std::vector(static_cast<std::size_t>(lanes), pieces_)};
    source_ = write_source(program_, kernels_, ir::Graph(), {});
  }
  enum Code : int { kCall, kCopy, kExp, kProduct, kRow, kWideProduct };

  std::int64_t most_rounds() const { return std::clamp<std::int64_t>(8192 / program_.lanes, 32, 1024); }
  std::size_t scratch_bytes() const { return program_.scratch_bytes; }
  const Source& source() const { return source_; }

  /// Tables by which every lane runs a probe so many times.
  std::vector<std::int32_t> tables(int code, std::int64_t rounds) const {
    std::vector<std::int32_t> t = source_.tables;
    const Launch& launch = source_.launches[0];
    for (std::int64_t lane = 0; lane <= program_.lanes; ++lane)
      t[static_cast<std::size_t>(launch.begins + lane)] = static_cast<std::int32_t>(lane * rounds);
    for (std::int64_t i = 0; i < rounds * program_.lanes; ++i)
      t[static_cast<std::size_t>(launch.pieces + i * Launch::kPieceNumbers)] = code;
    return t;
  }

 private:
  /// Where an operand of the call being made stands: in the lane's scratch behind those before it, or in the arena.
  View operand(DType dtype, const Shape& shape, int base = lower::kScratch) {
    std::size_t& end = base == lower::kScratch ? used_ : program_.arena_bytes;
    View v = lower::dense_view(base, static_cast<std::int64_t>(end), dtype, shape);
    end += (static_cast<std::size_t>(shape.count()) * size_of(dtype) + 63) / 64 * 64;
    return v;
  }
  void add(const std::vector<View>& operands, const std::string& body) {
    lower::Code code;
    lower::Call call;
    call.kernel = kernels_.add(operands, body);
    call.operands = static_cast<int>(operands.size());
    code.calls.push_back(call);
    for (const View& v : operands) code.operands.push_back({v.base, v.offset});
    program_.codes.push_back(std::move(code));
    program_.scratch_bytes = std::max(program_.scratch_bytes, used_);
    used_ = 0;
  }
  void map(const std::string& value, std::int64_t count) {
    const std::vector<View> operands{operand(DType::f32, {count}), operand(DType::f32, {count})};
    Writer w(kernels_.form());
    w.each(
        {{"i", count}}, [&] { w.line("p0[i] = ", value, ';'); }, true);
    add(operands, w.text());
  }
  /// Activations in scratch by weights that all lanes share.
  void product(DType dtype, std::int64_t rows) {
    const std::vector<View> operands{operand(dtype, {rows, kSide}), operand(dtype, {rows, kSide}),
                                     operand(dtype, {kSide, kSide}, lower::kArena)};
    Product p;
    p.dtype = dtype;
    p.rows = {{rows, kSide, 0, kSide}};
    p.columns = {{kSide, 0, 1, 1}};
    p.inner = {{kSide, 1, kSide, 0}};
    p.c = "p0", p.a = "p1", p.b = "p2";
    p.c_type = pointer_type(kernels_.form(), operands[0]);
    p.a_type = pointer_type(kernels_.form(), operands[1]);
    p.b_type = pointer_type(kernels_.form(), operands[2]);
    Writer w(kernels_.form());
    write_product(w, p);
    add(operands, w.text());
  }

  Kernels kernels_;
  lower::Program program_;
  std::size_t used_ = 0;  // of scratch, by the call being made
  std::vector<lower::Piece> pieces_;
  Source source_;
};

/// Runs probes. Throws Error where the device cannot.
class Stopwatch {
 public:
  Stopwatch(Device& device, const Probes& probes) : device_(device), probes_(probes) {
    const Source& source = probes.source();
    const std::shared_ptr<Module> module = device.build(source);
    for (const std::size_t bytes : source.bytes) memory_.push_back(device.allocate(std::max<std::size_t>(bytes, 64)));
    std::vector<Memory*> arguments;
    for (const int slot : source.launches[0].slots) arguments.push_back(memory_[static_cast<std::size_t>(slot)].get());
    one_ = device.prepare(module, {source.launches[0]}, {arguments});
    many_ = device.prepare(module, {kLaunches, source.launches[0]}, {kLaunches, arguments});
    for (std::size_t slot = 0; slot < memory_.size(); ++slot)
      if (slot != kTables) write(slot, std::vector<std::int32_t>(source.bytes[slot] / sizeof(std::int32_t), 0));
    write(kTables, probes.tables(0, 0));
    good(device.run(*many_) && device.finish());  // some drivers compile when they first launch
    empty_ = timed(probes.tables(0, 0), 8);
  }
  ~Stopwatch() { device_.finish(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// What a launch among several costs beside the work in it: with twice the work it is twice as long but for that.
  /// Each lane has some, since who has none need not even wake for it.
  double launch_seconds() {
    constexpr double kWork = 1e-5, kLeast = 1e-6;  // what is less than that is the clock's
    const double round = seconds(Probes::kCopy);
    const auto rounds =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(kWork / round), 1, probes_.most_rounds() / 2);
    double best[] = {1e9, 1e9};
    const auto begin = Clock::now();
    for (int i = 0; i < 60 && seconds_since(begin) < 2 * kEnough; ++i) {
      const int twice = i % 2;
      write(kTables, probes_.tables(Probes::kCopy, (1 + twice) * rounds));
      const auto start = Clock::now();
      good(device_.run(*many_) && device_.finish());
      best[twice] = std::min(best[twice], seconds_since(start) / kLaunches);
    }
    return std::max(2 * best[0] - best[1], kLeast);
  }
  /// Of one round of a probe on all lanes at once.
  double seconds(Probes::Code code) {
    constexpr double kWanted = 3e-4;
    const auto per_round = [&](std::int64_t rounds, int times) {
      return std::max(timed(probes_.tables(code, rounds), times) - empty_, 1e-9) / static_cast<double>(rounds);
    };
    const double once = per_round(1, 2);
    const auto rounds = std::clamp<std::int64_t>(static_cast<std::int64_t>(kWanted / once), 1, probes_.most_rounds());
    return once > kEnough ? once : per_round(rounds, 8);
  }

 private:
  static constexpr std::size_t kLaunches = 8;
  static constexpr double kEnough = 0.03;

  static void good(bool done, const Device& device) {
    if (!done) throw Error(device.problem());
  }
  void good(bool done) const { good(done, device_); }
  void write(std::size_t slot, const std::vector<std::int32_t>& numbers) {
    if (!numbers.empty()) good(device_.write(*memory_[slot], 0, numbers.data(), numbers.size() * sizeof numbers[0]));
  }
  double timed(const std::vector<std::int32_t>& tables, int times) {
    write(kTables, tables);
    double best = 1e9;
    const auto begin = Clock::now();
    for (int i = 0; i < times && (i == 0 || seconds_since(begin) < kEnough); ++i) {
      Span span;
      good(device_.run_timed(*one_, {&span, 1}));
      best = std::min(best, 1e-9 * (span.end_ns - span.begin_ns));
    }
    return best;
  }

  Device& device_;
  const Probes& probes_;
  std::vector<std::shared_ptr<Memory>> memory_;
  std::unique_ptr<Sequence> one_, many_;
  double empty_ = 0;  // a launch of nothing, as the device's own clock has it
};

struct Rate {
  double Machine::*value;
  bool is_cost;
};
constexpr Rate kMeasured[] = {{&Machine::barrier_ns, true},  {&Machine::call_ns, true},
                              {&Machine::exp_ns, true},      {&Machine::product_ramp, true},
                              {&Machine::gflops_f32, false}, {&Machine::gflops_f64, false},
                              {&Machine::gbs_l1, false}};

double two_digits(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 2).ptr;
  double rounded = value;
  std::from_chars(text, end, rounded);
  return rounded;
}

/// A machine with another's measured rates, where they can be true.
Machine with_rates(const Machine& guessed, const Machine& measured) {
  Machine m = guessed;
  for (const Rate& rate : kMeasured) {
    // So much better than what was thought of it, and it is the clock that is wrong; worse is believed.
    constexpr double kBetter = 30, kWorse = 1e4;
    const double value = measured.*rate.value, guess = guessed.*rate.value;
    const double times = rate.is_cost ? guess / value : value / guess;
    const bool ramp = rate.value == &Machine::product_ramp;
    if (std::isfinite(value) && value > 0 && times > 1 / kWorse && (times < kBetter || ramp))
      m.*rate.value = two_digits(value);
  }
  // What is further away is no nearer: a CPU's caches are the host's, and copies are the device's.
  for (double Machine::*const further : {&Machine::gbs_l2, &Machine::gbs_l3, &Machine::gbs_memory, &Machine::gbs_cross})
    m.*further = std::min(m.*further, m.gbs_l1);
  const double launch = m.barrier_ns;
  m = without_contradictions(m);
  m.barrier_ns = launch;  // as long as no barrier of threads is
  return m;
}

struct Measured {
  Machine machine;
  bool disturbed = false;
};

Measured measure(Device& device, const Form& form, const Machine& guess) {
  const Facts& facts = device.facts();
  Form used = form;
  const auto lanes = static_cast<int>(guess.cores);
  std::optional<Probes> probes(std::in_place, used, lanes, facts.f64);
  if (used.local_bytes > 0 && probes->scratch_bytes() > used.local_bytes) {
    used.local_bytes = 0;
    probes.emplace(used, lanes, facts.f64);
  }
  Stopwatch watch(device, *probes);
  const auto once = [&] {
    Machine m = guess;
    constexpr double kCopied = Probes::kCopied, kSide = Probes::kSide;
    m.barrier_ns = 1e9 * watch.launch_seconds();
    const double call = watch.seconds(Probes::kCall), product = watch.seconds(Probes::kProduct);
    m.call_ns = 1e9 * call;
    m.gbs_l1 = 2 * sizeof(float) * kCopied / (1e9 * std::max(watch.seconds(Probes::kCopy) - call, 1e-9));
    m.exp_ns = 1e9 * std::max(watch.seconds(Probes::kExp) - call, 0.0) / kCopied;
    m.gflops_f32 = 2 * kSide * kSide * kSide / product / 1e9;
    const double row = watch.seconds(Probes::kRow), more = std::max((product - row) / (kSide - 1), 1e-12);
    m.product_ramp = std::clamp(row / more - 1, 0.1, 64.0);
    if (facts.f64) m.gflops_f64 = kSide * kSide * kSide / watch.seconds(Probes::kWideProduct) / 1e9;
    return m;
  };
  const Machine a = once(), b = once();
  Measured best{a, false};
  for (const auto& [rate, is_cost] : kMeasured)
    best.machine.*rate = is_cost ? std::min(a.*rate, b.*rate) : std::max(a.*rate, b.*rate);
  constexpr double kApart = 1.5;  // two looks at a quiet device are nearer to one another
  for (const auto rate : {&Machine::barrier_ns, &Machine::gflops_f32})
    best.disturbed |= std::max(a.*rate, b.*rate) > kApart * std::min(a.*rate, b.*rate);
  // It is a small difference of larger times.
  if (best.disturbed) best.machine.barrier_ns = guess.barrier_ns;
  return best;
}

// ---- what is remembered: a line that says until when, and the machine ----

/// What was measured belongs to this device, and to these probes.
std::string options_of(const Facts& f, const Machine& host) {
  return cat("probes 1, ", f.units, " units, ", f.clock_mhz, " MHz, ", f.lanes, " lanes, vectors of ", f.vector_bytes,
             ", ", f.local_bytes, " local, ", f.cpu ? host.cpu : "");
}
constexpr const char* kName = "the machine that a device is";

std::int64_t now_in_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void remember(const Facts& facts, const Machine& host, Machine machine, bool disturbed) {
  constexpr std::int64_t kHour = 3600;
  machine.name = "a device";  // what it is called might not be text for such a file
  remember_code(facts, kName, options_of(facts, host),
                cat(disturbed ? now_in_seconds() + kHour : 0, '\n', to_text(machine)));
}

}  // namespace

std::optional<Machine> remembered_machine(const Facts& facts, const Machine& host) {
  const std::string text = remembered_code(facts, kName, options_of(facts, host));
  std::int64_t until = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), until);
  if (error != std::errc() || (until != 0 && until < now_in_seconds())) return {};
  try {
    const auto begins = static_cast<std::size_t>(end - text.data());
    return with_rates(machine_of(facts, host), machine_from_text(std::string_view(text).substr(begins), kName));
  } catch (const Error&) {
    return {};
  }
}

cpu::KnownMachine find_machine(Device& device, const Form& form, const Machine& host, bool again) {
  static std::mutex mutex;
  static std::map<std::string, cpu::KnownMachine> known;
  const std::lock_guard lock(mutex);
  const Facts& facts = device.facts();
  const std::string key =
      cat(facts.api, facts.index, facts.name, facts.driver, options_of(facts, host), '|', to_text(host));
  if (const auto it = known.find(key); it != known.end() && !again) return it->second;
  cpu::KnownMachine found;
  if (const auto remembered = again ? std::nullopt : remembered_machine(facts, host)) {
    found = {*remembered, "measured earlier", ""};
  } else {
    found = {machine_of(facts, host), "", ""};
    try {
      const auto start = Clock::now();
      const Measured measured = measure(device, form, found.machine);
      found.machine = with_rates(found.machine, measured.machine);
      remember(facts, host, found.machine, measured.disturbed);
      char took[64];
      std::snprintf(took, sizeof took, "measured in %.2f s", seconds_since(start));
      found.origin = cat(took, measured.disturbed ? " while others used it" : "");
    } catch (const Error& error) {
      found.origin = "from what the driver says";
      found.problem = error.what();
    }
  }
  return known[key] = found;
}

}  // namespace wr::device
