#include "apps/automaton/automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/automaton/exam.h"
#include "apps/automaton/wires.h"
#include "apps/common/metadata.h"
#include "windrow/clock.h"

namespace wr::apps {
namespace {

constexpr std::int64_t kPointEvery = 20;                        // updates between points of the curve
constexpr std::uint64_t kLookNumbers = std::uint64_t{1} << 62;  // batches that are not trained on
constexpr int kLookBatches = 4;
constexpr double kClose = 0.1;  // a hard loss that is worth going on with

DType dtype_of(const AutomatonSettings& s) { return s.dtype == "f64" ? DType::f64 : DType::f32; }

/// Of the n-th attempt: each has a wiring of its own.
logic::AutomatonOptions options_of(const AutomatonSettings& s, std::int64_t attempt) {
  logic::AutomatonOptions o;
  o.channels = s.channels;
  o.kernels = s.kernels;
  o.kernel_gates = layer_sizes(s.kernel_gates);
  o.update_gates = layer_sizes(s.update_gates);
  o.start = {.pass = s.pass, .noise = s.noise};
  o.look = s.look == "odd" ? logic::Look::odd : s.look == "even" ? logic::Look::even : logic::Look::alike;
  o.seed = s.seed + 0x9e3779b97f4a7c15 * static_cast<std::uint64_t>(attempt);
  o.dtype = dtype_of(s);
  return o;
}

/// Grids of one look.
std::int64_t look_grids(const AutomatonTask& task, const AutomatonSettings& s) {
  return task.all_grids() > 0 ? task.all_grids() : std::max<std::int64_t>(s.batch, 4);
}

/// How often a run had begun again.
std::int64_t restarts_of(const MetadataReader& file) { return file.whole("restarts", 0, 1'000'000'000); }

std::vector<LossPoint> history_of(const MetadataReader& file) {
  std::vector<LossPoint> history;
  for (const auto& v : file.rows("history", 3)) history.push_back({static_cast<std::int64_t>(v[0]), v[1], v[2]});
  return history;
}

}  // namespace

report::Point point_of(const LossPoint& point, double seconds) {
  return {point.update, seconds, {{"soft loss", point.soft}, {"hard loss", point.hard}}};
}

report::History automaton_history(const std::string& path) {
  const Metadata metadata = read_safetensors_header(path).metadata;
  report::History history;
  for (const LossPoint& p : history_of(MetadataReader(metadata, path))) history.points.push_back(point_of(p));
  return history;
}

AutomatonRun::AutomatonRun(const AutomatonSettings& settings, int threads, const PlannedFor& plan)
    : settings_(settings),
      task_(settings),
      automaton_(options_of(settings, 0)),
      random_(settings.seed),
      threads_(threads),
      plan_(plan),
      hardness_(settings.hard) {
  begin();
}

/// New optimiser and steps, for the automaton there is.
void AutomatonRun::begin() {
  adam_ = std::make_unique<optim::AdamW>(optim::Adam::Options{.lr = settings_.lr,
                                                              .beta2 = settings_.beta2,
                                                              .epsilon = settings_.epsilon,
                                                              .weight_decay = settings_.weight_decay,
                                                              .clip = {.value = settings_.clip}});
  sums_.clear();
  for (const State& p : automaton_.parameters())
    if (settings_.accumulate > 1) sums_.emplace_back(Array::zeros(p.shape(), p.spec().dtype), "sum." + p.name());
  compile_steps();
}

Tensor AutomatonRun::rollout(const logic::Automaton::Rule& rule, logic::Mode mode, const Tensor& start,
                             Recompute recompute) {
  return repeat(
      static_cast<int>(settings_.steps),
      [&](int, const std::vector<Tensor>& carried) { return std::vector{next_state(rule, mode, carried[0])}; }, {start},
      recompute)[0];
}

/// Bits need no restoring; it would leave no slopes.
Tensor AutomatonRun::next_state(const logic::Automaton::Rule& rule, logic::Mode mode, const Tensor& state) {
  Tensor next = automaton_.step(rule, state, settings_.height, settings_.width, border_of(settings_));
  for (int i = 0; i < settings_.restore && mode == logic::Mode::soft; ++i) next = square(next) * (3 - 2 * next);
  return settings_.fire >= 1 ? next : where(random_.bernoulli(settings_.fire, {1, state.size(1)}), next, state);
}

/// The loss after the last step and, with `early`, that share of it after every step of the second half.
Tensor AutomatonRun::rollout_loss(const logic::Automaton::Rule& rule, const Tensor& start, const Tensor& target,
                                  Recompute recompute) {
  if (settings_.early == 0) return loss_of(rollout(rule, logic::Mode::soft, start, recompute), target);
  const auto steps = static_cast<int>(settings_.steps);
  const auto carried = repeat(
      steps,
      [&](int i, const std::vector<Tensor>& before) {
        const Tensor next = next_state(rule, logic::Mode::soft, before[0]);
        if (2 * i < steps) return std::vector{next, before[1]};
        const Tensor error = square(slice(next, 0, 0, task_.target_channels()) - target);
        const double weight = i + 1 == steps ? 1 - settings_.early : 2 * settings_.early / steps;
        return std::vector{next, before[1] + weight * error};
      },
      {start, full(target.shape(), 0, target.dtype())}, recompute);
  return sum(carried[1]);
}

/// Soft gates, sharpened; some, drawn anew for each update, hard already: what is learned must not hang on mixtures.
/// Hard ones have no gradient.
logic::Automaton::Rule AutomatonRun::training_rule(const Tensor& sharpness, const Tensor& hardness) const {
  const auto hard = automaton_.rule(logic::Mode::hard);
  const auto mixed = [&](const std::vector<logic::Layer>& layers, const std::vector<Tensor>& hard_ones) {
    std::vector<Tensor> all;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const Tensor logits = Tensor(layers[i].logits) * reshape(sharpness, {1, 1});
      const Tensor soft = gate_coefficients(logits);
      if (settings_.harden == 0 && settings_.hard == 0) {
        all.push_back(soft);
        continue;
      }
      const Tensor draw = random_.uniform({logits.size(0), 1}, logits.dtype());
      all.push_back(where(draw < reshape(hardness, {1, 1}), stop_gradient(hard_ones[i]), soft));
    }
    return all;
  };
  return {mixed(automaton_.perception(), hard.perception), mixed(automaton_.update(), hard.update)};
}

Tensor AutomatonRun::loss_of(const Tensor& last, const Tensor& target) const {
  return sum(square(slice(last, 0, 0, task_.target_channels()) - target));
}

/// Start and target of so many grids.
std::vector<Spec> AutomatonRun::specs_of(std::int64_t grids) const {
  const DType dtype = dtype_of(settings_);
  const auto cells = grids * settings_.height * settings_.width;
  return {{dtype, {settings_.channels, cells}}, {dtype, {task_.target_channels(), cells}}};
}

void AutomatonRun::compile_steps() {
  const DType dtype = dtype_of(settings_);
  std::vector<Spec> specs = specs_of(settings_.batch);
  specs.insert(specs.end(), 2, Spec{dtype, {}});  // how sharp and how hard
  const Recompute recompute = settings_.memory == "recompute" ? Recompute::yes : Recompute::no;
  const std::vector<State> parameters = automaton_.parameters();
  CompileOptions options = compile_options(settings_.task, threads_, plan_);
  train_ = compile(
      [&](const std::vector<Tensor>& in) {
        const Tensor loss = rollout_loss(training_rule(in[2], in[3]), in[0], in[1], recompute);
        if (settings_.accumulate == 1) {
          adam_->minimize(loss, parameters);
          return std::vector<Tensor>{loss};
        }
        const auto gradients = grad(loss, std::vector<Tensor>(parameters.begin(), parameters.end()));
        for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].assign(Tensor(sums_[i]) + gradients[i]);
        return std::vector<Tensor>{loss};
      },
      specs, options);
  options.lanes = plan_.lanes = train_.facts().lanes;
  if (settings_.accumulate > 1)
    apply_ = compile(
        [&](const std::vector<Tensor>&) {
          adam_->apply(parameters, std::vector<Tensor>(sums_.begin(), sums_.end()));
          for (const State& s : sums_) s.assign(full(s.shape(), 0, dtype));
          return std::vector<Tensor>{};
        },
        {}, options);
  slopes_.reset();
  hard_ = compile(
      [&](const std::vector<Tensor>& in) {
        const Tensor last = rollout(automaton_.rule(logic::Mode::hard), logic::Mode::hard, in[0], Recompute::no);
        const Tensor wrong = cast(ne(slice(last, 0, 0, task_.target_channels()), in[1]), dtype);
        return std::vector<Tensor>{loss_of(last, in[1]), sum(wrong)};
      },
      specs_of(look_grids(task_, settings_)), options);
}

AutomatonRun::Look AutomatonRun::look(int batches) {
  Look found;
  if (task_.all_grids() > 0 && settings_.fire >= 1) batches = 1;
  for (int i = 0; i < batches; ++i) {
    const auto b = task_.all_grids() > 0
                       ? task_.all()
                       : task_.batch(kLookNumbers + static_cast<std::uint64_t>(looks_++), look_grids(task_, settings_));
    const auto results = hard_(b.start, b.target);
    found.error += results[0].astype(DType::f64).item<double>();
    found.wrong += static_cast<std::int64_t>(results[1].astype(DType::f64).item<double>());
    found.cells += b.target.count();
  }
  found.error /= static_cast<double>(found.cells);
  return found;
}

/// One update; the mean squared error of its batches.
double AutomatonRun::run_update() {
  const Array sharpness = Array::full({}, sharpness_, dtype_of(settings_));
  const Array hardness = Array::full({}, hardness_, dtype_of(settings_));
  double sum = 0, count = 0;
  for (std::int64_t i = 0; i < settings_.accumulate; ++i) {
    const auto b = task_.batch(static_cast<std::uint64_t>(done_ * settings_.accumulate + i), settings_.batch);
    sum += train_(b.start, b.target, sharpness, hardness)[0].astype(DType::f64).item<double>();
    count += static_cast<double>(b.target.count());
  }
  if (settings_.accumulate > 1) apply_();
  ++done_;
  return sum / count;
}

bool AutomatonRun::is_hopeless() const {
  const std::int64_t made = done_ - begun_;
  if (settings_.attempt == 0 || made < settings_.attempt) return false;
  if (last_hard_ > kClose) return true;
  double lately = 1, before = 1;  // the least hard loss
  for (const LossPoint& p : history_)
    if (p.update > begun_) {
      double& least = p.update > done_ - settings_.attempt / 3 ? lately : before;
      least = std::min(least, p.hard);
    }
  return lately > 0.9 * before;
}

/// Another wiring, new logits: whether a run succeeds depends on both.
void AutomatonRun::begin_again() {
  ++restarts_;
  begun_ = done_;
  sharpness_ = 1;
  hardness_ = settings_.hard;
  recent_ = 0.25;
  last_hard_ = 1;
  searched_ = in_vain_ = 0;
  automaton_ = logic::Automaton(options_of(settings_, restarts_));
  wires_.clear();
  begin();
}

/// After wires have changed: steps that know them. Training can go on.
void AutomatonRun::rewired() {
  wires_ = wire_states(automaton_);
  const std::vector<State> before = adam_->states();
  begin();
  const std::vector<State> now = adam_->states();
  for (std::size_t i = 0; i < now.size(); ++i) State(now[i]).set(before[i].value());
}

void AutomatonRun::follow(double error) {
  recent_ = done_ == begun_ + 1 ? error : 0.95 * recent_ + 0.05 * error;
  constexpr double kSharpest = 30, kHardest = 0.8;
  if (recent_ < settings_.solved) {
    sharpness_ = std::min(kSharpest, sharpness_ * (1 + settings_.sharpen));
    hardness_ = std::max(settings_.hard, std::min(kHardest, hardness_ + settings_.harden));
  } else {
    hardness_ = std::max(settings_.hard, hardness_ - settings_.harden);
  }
  // Sharpened logits move as fast as before; the more gates are hard, the slower.
  adam_->set_lr(settings_.lr * (1 - 0.75 * hardness_) / sharpness_);
}

PolishExam::Slopes AutomatonRun::slopes() {
  if (!slopes_)
    slopes_ = compile(
        [&](const std::vector<Tensor>& in) {
          const auto rule = automaton_.rule(logic::Mode::hard);
          const Tensor last = rollout(rule, logic::Mode::hard, in[0], Recompute::yes);
          return PolishExam::Slopes::trace(rule, slice(last, 0, 0, task_.target_channels()), in[1]);
        },
        specs_of(task_.all_grids()), compile_options(settings_.task, threads_, plan_));
  const auto all = task_.all();
  return PolishExam::Slopes((*slopes_)(all.start, all.target));
}

/// Other gates and wires with which nothing is wrong. In a search also those with which less is, in training not: it
/// might end in a worse place. Whether there are some.
bool AutomatonRun::mend(const AutomatonExam& exam, Stage stage) {
  const std::int64_t before = exam.wrong(logic::circuit_of(automaton_));
  const auto found = exam.mend(automaton_, {.tries = settings_.tries, .seed = search_seed()});
  if (!found || found->wrong >= before || (stage == Stage::update && found->wrong > 0)) return false;
  change_gates(automaton_, found->changes);
  rewired();
  return true;
}

/// Gates with which the fewest cells are wrong, on grids that are not trained on: with other wires for a picture, else
/// or where that finds nothing with other functions. Where the grids are but a few of those there are, their slopes
/// would lead to what works on them alone.
bool AutomatonRun::polish(Stage stage) {
  AutomatonExam exam(task_, settings_, kLookNumbers + static_cast<std::uint64_t>(looks_++));
  const bool picture = grows_picture(settings_.task);
  if (picture && mend(exam, stage)) return true;
  if (picture && stage == Stage::update) return false;
  PolishExam questions{.errors = [&](const logic::Functions& functions) { return exam.badness(automaton_, functions); },
                       .slopes = {},
                       .visible = task_.target_channels()};
  if (task_.all_grids() > 0 && settings_.fire >= 1) questions.slopes = [&] { return slopes(); };
  apps::polish(automaton_, questions, {.tries = settings_.tries, .seed = search_seed()});
  return true;
}

/// Updates until nothing more comes of them, then searches where little is wrong, then another wiring.
AutomatonRun::Stage AutomatonRun::next_stage() const {
  const bool at_end = done_ >= settings_.updates;
  if (searched_ == 0 && !at_end && !is_hopeless()) return Stage::update;
  if (in_vain_ < settings_.finish && last_hard_ <= kClose) return Stage::search;
  return at_end ? Stage::end : Stage::again;
}

AutomatonProgress AutomatonRun::progress(Stage stage, double rate) const {
  const auto left = stage == Stage::search ? settings_.finish - in_vain_ : settings_.updates - done_;
  return {.update = done_,
          .updates = settings_.updates,
          .search = searched_,
          .searches_left = settings_.finish - in_vain_,
          .soft = recent_,
          .hard = last_hard_,
          .sharpness = sharpness_,
          .hardness = hardness_,
          .rate = rate,
          .seconds_left = static_cast<double>(left) / rate};
}

Outcome AutomatonRun::train(const AutomatonWatch& watch) {
  struct Pace {
    double seconds = 1e-9, count = 0;
  };
  std::map<Stage, Pace> paces;
  for (Stage stage = next_stage(); stage != Stage::end; stage = next_stage()) {
    if (stage == Stage::again) {
      begin_again();
      continue;
    }
    const double start = seconds_now();
    bool look_now = true;
    if (stage == Stage::search) {
      polish(stage);
      ++searched_;
    } else {
      follow(run_update());
      const bool ripe = recent_ < settings_.solved;
      const bool polished = settings_.polish > 0 && ripe && (done_ - begun_) % settings_.polish == 0 && polish(stage);
      const bool near = recent_ < 0.1;
      look_now = done_ % (near ? kPointEvery : 5 * kPointEvery) == 0 || done_ == settings_.updates ||
                 (polished && !wires_.empty());
    }
    const Look found = look_now ? look(kLookBatches) : Look{};
    if (stage == Stage::search) in_vain_ = found.error < last_hard_ ? 0 : in_vain_ + 1;
    if (look_now) history_.push_back({done_, recent_, last_hard_ = found.error});
    const double took = seconds_now() - start;
    seconds_ += took;
    Pace& pace = paces[stage];
    pace = {pace.seconds + took, pace.count + 1};
    const AutomatonProgress p = progress(stage, pace.count / pace.seconds);
    if (look_now && watch.look) watch.look(p);
    if (look_now && found.wrong == 0 && found.error == 0) return Outcome::exact;
    if (watch.update) watch.update(p);
    if (watch.stop && watch.stop()) return Outcome::stopped;
  }
  return Outcome::not_exact;
}

// ---- checkpoints ----

CheckpointStates AutomatonRun::states() const {
  CheckpointStates all;
  all.add_group("model", automaton_.parameters());
  all.add_group("optimiser", adam_->states());
  all.add("random", random_.counter());
  all.add_group(kWires, wires_);
  return all;
}

void AutomatonRun::save(const std::string& path) const {
  Metadata m;
  for (const auto& [name, text] : to_texts(settings_)) m[name] = text;
  m["windrow.app"] = "automaton";
  write_plan(m, train_);
  m["done"] = std::to_string(done_);
  m["restarts"] = std::to_string(restarts_);
  m["so_far"] = fmt::format("{} {} {} {} {} {} {} {} {}", begun_, looks_, sharpness_, hardness_, recent_, last_hard_,
                            seconds_, searched_, in_vain_);
  std::string points;
  for (const LossPoint& p : history_) points += fmt::format("{} {} {};", p.update, p.soft, p.hard);
  m["history"] = points;
  save_checkpoint(path, states(), m);
}

void AutomatonRun::load(const std::string& path) {
  const Metadata m = read_safetensors_header(path).metadata;
  const MetadataReader file(m, path);
  const std::int64_t done = file.whole("done", 0, settings_.updates), restarts = restarts_of(file);
  // begun, looks, sharpness, hardness, recent, last hard, seconds, searched, in vain
  const auto so_far = file.numbers("so_far", 9);
  for (const std::size_t count : std::initializer_list<std::size_t>{0, 1, 7, 8})
    if (!(so_far[count] >= 0 && so_far[count] <= static_cast<double>(MetadataReader::kManyTimes)))
      file.refuse("so_far", file.text("so_far"), "counts from 0 on at places 1, 2, 8 and 9");
  std::vector<LossPoint> history = history_of(file);
  logic::Automaton automaton(options_of(settings_, restarts));
  const bool rewired = take_wires(read_safetensors(path), path, automaton);
  if (restarts != restarts_ || rewired || !wires_.empty()) {
    automaton_ = std::move(automaton);
    wires_ = rewired ? wire_states(automaton_) : std::vector<State>{};
    begin();
  }
  load_checkpoint(path, states());
  expect_finite(path, states());
  done_ = done;
  restarts_ = restarts;
  begun_ = static_cast<std::int64_t>(so_far[0]);
  looks_ = static_cast<std::int64_t>(so_far[1]);
  sharpness_ = so_far[2];
  hardness_ = so_far[3];
  recent_ = so_far[4];
  last_hard_ = so_far[5];
  seconds_ = so_far[6];
  searched_ = static_cast<std::int64_t>(so_far[7]);
  in_vain_ = static_cast<std::int64_t>(so_far[8]);
  history_ = std::move(history);
}

TrainedAutomaton load_automaton(const std::string& path) {
  const Safetensors file = read_safetensors(path);
  const AutomatonSettings settings = automaton_settings_of(read_safetensors_header(path), path);
  const MetadataReader metadata(file.metadata, path);
  TrainedAutomaton t{settings, logic::Automaton(options_of(settings, restarts_of(metadata))), history_of(metadata)};
  take_wires(file, path, t.automaton);
  CheckpointStates states;
  states.add_group("model", t.automaton.parameters());
  for (const auto& [name, state] : states.all()) {
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end()) throw Error(fmt::format("{}: has no {} {}", path, name, to_string(state.spec())));
    const Spec spec{found->second.dtype(), found->second.shape()};
    if (!(spec == state.spec()))
      throw Error(
          fmt::format("{}: {} is {}, its settings need {}", path, name, to_string(spec), to_string(state.spec())));
    expect_finite(path, name, found->second);
    State(state).set(found->second);
  }
  return t;
}

}  // namespace wr::apps
