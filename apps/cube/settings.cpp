#include "apps/cube/settings.h"

#include "apps/cube/pocket_cube.h"

namespace wr::apps {
namespace {

using S = CubeSettings;
constexpr std::int64_t kMany = 1'000'000'000;

std::vector<std::int64_t> widths_of(const std::string& text) {
  std::vector<std::int64_t> widths;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    std::int64_t width = 0;
    const auto [next, error] = std::from_chars(at, end, width);
    if (error != std::errc{} || width < 1 || width > 16384)
      refuse_setting("hidden", text, "widths from 1 to 16384 with commas, as 512,512,256");
    widths.push_back(width);
    if (next == end) return widths;
    if (*next != ',') refuse_setting("hidden", text, "widths from 1 to 16384 with commas, as 512,512,256");
    at = next + 1;
  }
}

NamedField<S> hidden_field() {
  return {"hidden", "Widths of the hidden layers", "N,N,..", [](const S& s) { return s.hidden; },
          [](S& s, const std::string& text) {
            widths_of(text);
            s.hidden = text;
          }};
}

}  // namespace

const std::vector<NamedField<S>>& cube_fields() {
  static const std::vector<NamedField<S>> all{
      choice_field("method", &S::method, {"supervised", "value-iteration", "dqn"}, "How it learns"),
      number_field<S, std::uint64_t>("seed", &S::seed, 0, ~std::uint64_t{0}, "Of everything that is random"),
      choice_field("encoding", &S::encoding, {"stickers", "corners", "coordinates"}, "What the net reads of a cube"),
      yes_no_field("symmetry", &S::symmetry, "The net sees one state of each orbit (value methods)"),
      hidden_field(),
      choice_field("activation", &S::activation, {"relu", "elu"}, "After each hidden layer"),
      yes_no_field("classes", &S::classes, "The distance as a distribution, not a number (value methods)"),
      yes_no_field("layer-norm", &S::layer_norm, "In each hidden layer"),
      yes_no_field("residual", &S::residual, "x + layer(x) where widths are equal"),
      yes_no_field("dueling", &S::dueling, "dqn: V + A - mean A"),
      yes_no_field("noisy", &S::noisy, "dqn: noisy output layers"),
      number_field<S, std::int64_t>("batch", &S::batch, 1, 1'000'000, "Examples a step"),
      number_field("lr", &S::lr, 1e-12, 1e3, "Learning rate, at its highest"),
      choice_field("schedule", &S::schedule, {"constant", "cosine"}, "Of the learning rate, over the whole run"),
      number_field("huber", &S::huber, 0.0, 1e3, "Delta of the Huber loss; 0: squared error"),
      number_field<S, std::int64_t>("steps", &S::steps, 1, kMany, "Training steps (value methods)"),
      number_field("near", &S::near, 0.0, 1.0, "Share of examples that are random walks (value methods)"),
      number_field<S, std::int64_t>("walk", &S::walk, 1, 1000, "Their greatest length"),
      number_field<S, std::int64_t>("sync-every", &S::sync_every, 1, kMany, "Steps between syncs of the target net"),
      yes_no_field("parity", &S::parity, "value-iteration: round values to the state's parity"),
      number_field<S, std::int64_t>("episodes", &S::episodes, 1, kMany, "dqn: episodes"),
      number_field<S, std::int64_t>("environments", &S::environments, 1, 4096, "dqn: cubes that act at once"),
      number_field<S, std::int64_t>("max-moves", &S::max_moves, 1, 10'000, "dqn: moves of an episode"),
      number_field<S, std::int64_t>("n-step", &S::n_step, 1, 100, "dqn: steps of a return"),
      yes_no_field("cut-at-chance", &S::cut_at_chance, "dqn: a return ends before a random move"),
      number_field("gamma", &S::gamma, 0.0, 1.0, "dqn: discount"),
      yes_no_field("double", &S::double_q, "dqn: the online net chooses, the target net judges"),
      yes_no_field("bounded", &S::bounded, "dqn: targets stay within what a return can be"),
      number_field("tau", &S::tau, 1e-9, 1.0, "dqn: of a sync; below 1 after every step"),
      number_field<S, std::int64_t>("replay", &S::replay, 1, 20'000'000, "dqn: transitions kept"),
      number_field<S, std::int64_t>("warm-up", &S::warm_up, 1, 100'000'000, "dqn: transitions before training"),
      yes_no_field("prioritised", &S::prioritised, "dqn: replay by error"),
      number_field("alpha", &S::alpha, 0.0, 1.0, "dqn: how much the error decides"),
      number_field("beta", &S::beta, 0.0, 1.0, "dqn: importance weights, at first"),
      number_field<S, std::int64_t>("beta-steps", &S::beta_steps, 1, kMany, "dqn: steps until they are 1"),
      number_field("eps", &S::eps, 0.0, 1.0, "dqn: share of random moves, at first"),
      number_field("eps-least", &S::eps_least, 0.0, 1.0, "dqn: at least"),
      number_field("eps-decay", &S::eps_decay, 0.0, 1.0, "dqn: times this each episode"),
      yes_no_field("curriculum", &S::curriculum, "dqn: depth rises with success"),
      number_field("first-depth", &S::first_depth, 1.0, 100.0, "dqn: scramble moves at first"),
      number_field("last-depth", &S::last_depth, 1.0, 100.0, "dqn: at last"),
      number_field("depth-step", &S::depth_step, 0.001, 100.0, "dqn: rise at a time; below 1 depths are mixed"),
      number_field<S, std::int64_t>("pretrain", &S::pretrain, 0, kMany, "dqn: supervised steps before"),
      number_field<S, std::int64_t>("pretrain-depth", &S::pretrain_depth, 1, 14, "dqn: on states that near"),
      choice_field("pretrain-target", &S::pretrain_target, {"set", "values"}, "dqn: sets of best moves, or exact Q"),
      number_field("margin", &S::margin, 0.0, 10.0, "dqn: lead of their best moves in training too; 0: forget them"),
  };
  return all;
}

std::vector<std::string> cube_presets() { return {"best", "label-free", "dqn"}; }

CubeSettings cube_preset(const std::string& name) {
  CubeSettings s;
  if (name == "best") return s;
  if (name == "label-free") {
    s.method = "value-iteration";
    s.sync_every = 250;
    s.near = 0.2;
    return s;
  }
  if (name == "dqn") {
    s.method = "dqn";
    s.encoding = "stickers";
    s.symmetry = false;
    s.hidden = "256,128,64";
    s.layer_norm = s.dueling = true;
    s.batch = 64;
    s.lr = 1e-3;
    s.huber = 1;
    s.pretrain = 2000;
    s.pretrain_depth = 4;
    s.pretrain_target = "values";
    s.margin = 0.02;  // half of what a lost move and the way back cost
    return s;
  }
  refuse_setting("preset", name, fmt::format("one of {}", fmt::join(cube_presets(), ", ")));
}

void set(CubeSettings& settings, const std::string& name, const std::string& text) {
  field_named(cube_fields(), name).set(settings, text);
}

Texts to_texts(const CubeSettings& settings) { return texts_of(settings, cube_fields()); }

CubeSettings cube_settings_of(const SafetensorsHeader& header, const std::string& path) {
  expect_app(header.metadata, path, "cube", "`windrow train cube`");
  CubeSettings settings = fields_from<CubeSettings>(header.metadata, path, cube_fields());
  // Before anything of that size is made: what the layers between the hidden widths alone need must be there.
  std::int64_t held = 0, needed = 0, before = 0;
  for (const auto& [name, spec] : header.tensors)
    if (name.starts_with("model.")) held += spec.shape.count();
  for (const std::int64_t width : widths_of(settings.hidden)) {
    needed += before * width;
    before = width;
  }
  if (needed > held)
    throw Error(fmt::format("{}: metadata: hidden is '{}', a net of more than {} parameters, but the file holds {}",
                            path, settings.hidden, needed, held));
  return settings;
}

rl::NetOptions net_options(const CubeSettings& s) {
  const bool q = s.method == "dqn";
  rl::NetOptions o;
  o.input = CubeEncoder(s).input();
  o.hidden = widths_of(s.hidden);
  o.outputs = q ? 6 : s.classes ? kPairClasses : 1;
  o.activation = s.activation == "elu" ? rl::Activation::elu : rl::Activation::relu;
  o.layer_norm = s.layer_norm;
  o.residual = s.residual;
  o.dueling = q && s.dueling;
  o.noisy = q && s.noisy;
  return o;
}

// ---- what a net reads ----

CubeEncoder::CubeEncoder(const CubeSettings& settings)
    : kind_(settings.encoding == "stickers"  ? Kind::stickers
            : settings.encoding == "corners" ? Kind::corners
                                             : Kind::coordinates),
      symmetry_(settings.symmetry && settings.method != "dqn") {}

rl::Input CubeEncoder::input() const {
  if (kind_ == Kind::stickers) return {144, 24};
  if (kind_ == Kind::corners) return {149, 8};
  const std::int64_t permutations =
      symmetry_ ? CubeOrbits::get().permutations() : std::int32_t{PocketCube::kPermutations};
  return {149 + PocketCube::kTwists + permutations, 10};
}

void CubeEncoder::rows(std::span<const std::int32_t> states, Array& input) {
  constexpr std::int32_t kTwists = PocketCube::kTwists;
  const PocketCube& cube = PocketCube::get();
  std::int32_t* rows = input.mutable_data<std::int32_t>();
  if (symmetry_) {
    const CubeOrbits& orbits = CubeOrbits::get();
    shown_.resize(states.size());
    for (std::size_t i = 0; i < states.size(); ++i) shown_[i] = orbits.first(orbits.orbit(states[i]));
    states = shown_;
  }
  if (kind_ == Kind::stickers) return cube.sticker_rows(states, rows);
  if (kind_ == Kind::corners) return cube.corner_rows(states, rows);
  corners_.resize(8 * states.size());
  cube.corner_rows(states, corners_.data());
  for (std::size_t i = 0; i < states.size(); ++i) {
    rows = std::copy_n(corners_.begin() + static_cast<std::ptrdiff_t>(8 * i), 8, rows);
    *rows++ = 149 + states[i] % kTwists;
    const std::int32_t permutation =
        symmetry_ ? CubeOrbits::get().permutation(CubeOrbits::get().orbit(states[i])) : states[i] / kTwists;
    *rows++ = 149 + kTwists + permutation;
  }
}

}  // namespace wr::apps
