// Profiles as JSON and back. A file may be anybody's: every field is checked for what it is.
#include <fmt/format.h>

#include <cmath>

#include "base/json.h"
#include "windrow/error.h"
#include "windrow/profile.h"

namespace wr {
namespace {

constexpr int kVersion = 1;

// Each struct names its fields once, for both directions: `fields(x, visit)`.
template <class V>
void fields(Roofline::Level& x, V&& v) {
  v("name", x.name), v("bytes", x.bytes), v("gbs", x.gbs), v("gbs_all", x.gbs_all);
}
template <class V>
void fields(Roofline& x, V&& v) {
  v("threads", x.threads), v("gflops_f32", x.gflops_f32), v("gflops_f64", x.gflops_f64);
  v("gflops_f32_all", x.gflops_f32_all), v("gflops_f64_all", x.gflops_f64_all), v("levels", x.levels);
}
template <class V>
void fields(Profile::Kernel& x, V&& v) {
  v("op", x.op), v("detail", x.detail), v("kernel", x.kernel), v("file", x.file), v("line", x.line);
  v("gradient", x.gradient), v("phase", x.phase), v("region", x.region), v("rows", x.rows), v("calls", x.calls);
  v("us", x.us), v("mean_us", x.mean_us), v("min_us", x.min_us), v("max_us", x.max_us), v("flops", x.flops);
  v("bytes", x.bytes), v("roof_us", x.roof_us), v("bound", x.bound);
}
template <class V>
void fields(Profile::Thread& x, V&& v) {
  v("busy_us", x.busy_us), v("start_us", x.start_us), v("finish_us", x.finish_us), v("barrier_us", x.barrier_us);
  v("phase_us", x.phase_us);
}
template <class V>
void fields(Profile::Region& x, V&& v) {
  v("phase", x.phase), v("index", x.index), v("extent", x.extent), v("strip", x.strip), v("strips", x.strips);
  v("lanes", x.lanes), v("flat", x.flat), v("us", x.us), v("scratch_bytes", x.scratch_bytes);
}
template <class V>
void fields(Profile::Cut& x, V&& v) {
  v("phase", x.phase), v("reader", x.reader), v("reader_op", x.reader_op), v("maker", x.maker);
  v("maker_op", x.maker_op), v("why", x.why), v("bytes", x.bytes), v("needed", x.needed);
}
template <class V>
void fields(Profile::Memory::Point& x, V&& v) {
  v("us", x.us), v("bytes", x.bytes);
}
template <class V>
void fields(Profile::Memory::Sample& x, V&& v) {
  v("seconds", x.seconds), v("resident_bytes", x.resident_bytes), v("allocations", x.allocations);
}
template <class V>
void fields(Profile::Memory& x, V&& v) {
  v("state_bytes", x.state_bytes), v("argument_bytes", x.argument_bytes), v("result_bytes", x.result_bytes);
  v("arena_bytes", x.arena_bytes), v("scratch_bytes", x.scratch_bytes), v("partial_bytes", x.partial_bytes);
  v("live", x.live), v("samples", x.samples), v("allocations_per_run", x.allocations_per_run);
}
template <class V>
void fields(Profile::Event& x, V&& v) {
  v("thread", x.thread), v("lane", x.lane), v("kernel", x.kernel), v("begin_us", x.begin_us), v("end_us", x.end_us);
}
template <class V>
void fields(Profile::Bottleneck& x, V&& v) {
  v("kind", x.kind), v("where", x.where), v("text", x.text), v("advice", x.advice), v("gain", x.gain);
}
template <class V>
void fields(Profile& x, V&& v) {
  v("name", x.name), v("machine", x.machine), v("simd", x.simd), v("date", x.date), v("threads", x.threads);
  v("lanes", x.lanes), v("phases", x.phases), v("cores", x.cores), v("batch", x.batch), v("runs", x.runs),
      v("recorded", x.recorded);
  v("every", x.every), v("run_us", x.run_us), v("min_us", x.min_us), v("max_us", x.max_us);
  v("between_us", x.between_us), v("compile_ms", x.compile_ms), v("flops", x.flops), v("overhead", x.overhead);
  v("roof", x.roof), v("bottlenecks", x.bottlenecks), v("kernels", x.kernels), v("thread_times", x.thread_times);
  v("regions", x.regions), v("cuts", x.cuts), v("memory", x.memory), v("timeline", x.timeline);
  v("rows", x.rows);
}

/// Files of programs before profiles of devices have none.
bool may_lack(std::string_view name) { return name == "rows"; }

// ---- writing
double rounded(double x) { return std::isfinite(x) ? std::round(x * 1e4) / 1e4 : 0; }

Json write(const std::string& x) { return x; }
Json write(bool x) { return x; }
Json write(int x) { return x; }
Json write(std::int64_t x) { return x; }
Json write(double x) { return rounded(x); }
template <class T>
Json write(const T& x);
template <class T>
Json write(const std::vector<T>& x) {
  Json list = Json::list();
  for (const T& each : x) list.push_back(write(each));
  return list;
}
/// The timeline is long: an event is a list of its fields.
Json write(const std::vector<Profile::Event>& x) {
  Json list = Json::list();
  for (const auto& e : x)
    list.push_back(Json::list({e.thread, e.lane, e.kernel, rounded(e.begin_us), rounded(e.end_us)}));
  return list;
}
template <class T>
Json write(const T& x) {
  Json object = Json::object();
  fields(const_cast<T&>(x), [&](const char* name, auto& field) { object.members().push_back({name, write(field)}); });
  return object;
}

// ---- reading
constexpr double kLargest = 9e15;  // an integer that a double holds exactly

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  void read(const Json& j, const std::string& path, std::string& x) {
    if (!j.is_text()) refuse(path, "a text", j);
    x = j.text();
  }
  void read(const Json& j, const std::string& path, bool& x) {
    if (!j.is_bool()) refuse(path, "true or false", j);
    x = j.boolean();
  }
  void read(const Json& j, const std::string& path, double& x) {
    if (!j.is_number() || !std::isfinite(j.number())) refuse(path, "a number", j);
    x = j.number();
  }
  void read(const Json& j, const std::string& path, std::int64_t& x) {
    if (!j.is_number() || !(std::abs(j.number()) <= kLargest)) refuse(path, "a whole number", j);
    x = static_cast<std::int64_t>(j.number());
  }
  void read(const Json& j, const std::string& path, int& x) {
    std::int64_t wide = 0;
    read(j, path, wide);
    if (wide < -1'000'000'000 || wide > 1'000'000'000) refuse(path, "a small whole number", j);
    x = static_cast<int>(wide);
  }
  void read(const Json& j, const std::string& path, Profile::Event& e) {
    if (!j.is_list() || j.items().size() != 5) refuse(path, "a list of five numbers", j);
    read(j.items()[0], path, e.thread);
    read(j.items()[1], path, e.lane);
    read(j.items()[2], path, e.kernel);
    read(j.items()[3], path, e.begin_us);
    read(j.items()[4], path, e.end_us);
  }
  template <class T>
  void read(const Json& j, const std::string& path, std::vector<T>& x) {
    if (!j.is_list()) refuse(path, "a list", j);
    for (std::size_t i = 0; i < j.items().size(); ++i) {
      x.emplace_back();
      read(j.items()[i], fmt::format("{}[{}]", path, i), x.back());
    }
  }
  template <class T>
  void read(const Json& j, const std::string& path, T& x) {
    if (!j.is_object()) refuse(path, "an object", j);
    fields(x, [&](const char* name, auto& field) {
      const Json* const value = j.find(name);
      if (value == nullptr && may_lack(name)) return;
      if (value == nullptr) throw Error(fmt::format("{}: {} has no \"{}\"", name_, path, name));
      read(*value, path + "." + name, field);
    });
  }

  /// What other code relies on when it walks through a profile.
  void check(const Profile& p, const std::string& path) {
    for (const auto& e : p.timeline)
      if (e.kernel >= static_cast<int>(p.kernels.size()) || e.kernel < -3 || e.thread < 0 || e.lane < 0)
        throw Error(fmt::format("{}: {}.timeline speaks of kernel {} on thread {}; there are {} kernels", name_, path,
                                e.kernel, e.thread, p.kernels.size()));
    if (p.threads < 1 || p.phases < 0 || p.phases > 100'000)
      throw Error(fmt::format("{}: {} has {} threads and {} phases", name_, path, p.threads, p.phases));
    for (const auto& t : p.thread_times)
      if (t.barrier_us.size() != static_cast<std::size_t>(p.phases) || t.phase_us.size() != t.barrier_us.size())
        throw Error(fmt::format("{}: {}.thread_times does not match the {} phases", name_, path, p.phases));
  }

  [[noreturn]] void refuse(const std::string& path, const char* wanted, const Json& j) const {
    throw Error(fmt::format("{}: {} should be {}, is {}", name_, path, wanted, j.type_name()));
  }

 private:
  std::string name_;
};

}  // namespace

std::string to_json(std::span<const Profile> profiles) {
  Json steps = Json::list();
  for (const Profile& p : profiles) steps.push_back(write(p));
  return Json{{"windrow_profile", kVersion}, {"steps", std::move(steps)}}.dump() + "\n";
}

std::string Profile::to_json() const { return wr::to_json(std::span<const Profile>(this, 1)); }

std::vector<Profile> profiles_from_json(std::string_view text, const std::string& name) {
  const Json j = parse_json(text, name);
  const Json *const version = j.find("windrow_profile"), *const steps = j.find("steps");
  if (version == nullptr || steps == nullptr) throw Error(name + ": is JSON, but no profile that windrow wrote");
  if (*version != Json(kVersion))
    throw Error(fmt::format("{}: is of version {}, this program reads version {}", name, version->dump(), kVersion));
  Reader reader(name);
  std::vector<Profile> profiles;
  reader.read(*steps, "steps", profiles);
  for (std::size_t i = 0; i < profiles.size(); ++i) reader.check(profiles[i], fmt::format("steps[{}]", i));
  return profiles;
}

}  // namespace wr
