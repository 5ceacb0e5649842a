// windrow.rl: environments, replay, nets and learners.
#include "windrow/rl.h"

#include <nanobind/stl/vector.h>

#include "casters.h"
#include "windrow/agents.h"

namespace wr::python {
namespace {

using namespace nb::literals;

void bind_environments(nb::module_& n) {
  nb::class_<Rng>(n, "Rng", "SplitMix64: the same numbers on any machine.")
      .def(nb::init<std::uint64_t>(), "seed"_a = 0)
      .def("bits", &Rng::bits)
      .def("below", nb::overload_cast<std::uint64_t>(&Rng::below), "count"_a)
      .def("uniform", nb::overload_cast<>(&Rng::uniform))
      .def_prop_ro("state", &Rng::state);
  nb::class_<rl::Outcome>(n, "Outcome", "What a step in an environment has led to.")
      .def_ro("reward", &rl::Outcome::reward)
      .def_ro("terminal", &rl::Outcome::terminal)
      .def_ro("truncated", &rl::Outcome::truncated)
      .def_prop_ro("over", &rl::Outcome::over);
  nb::class_<rl::CartPole>(n, "CartPole", "A pole on a cart that is pushed left (0) or right (1). Gym's CartPole-v1.")
      .def(nb::init<>())
      .def(
          "reset",
          [](rl::CartPole& e, Rng& rng) {
            e.reset(rng);
            return Array::from(std::span<const float>(e.now), Shape{4});
          },
          "rng"_a)
      .def("observe", [](const rl::CartPole& e) { return Array::from(std::span<const float>(e.now), Shape{4}); })
      .def(
          "step",
          [](rl::CartPole& e, int action) {
            if (action < 0 || action >= rl::CartPole::kActions) throw nb::value_error("step: action is 0 or 1");
            return e.step(action);
          },
          "action"_a)
      .def_ro("steps", &rl::CartPole::steps);
  nb::class_<rl::Pendulum>(
      n, "Pendulum", "A pole that hangs from a motor too weak to lift it at once. Gym's, the torque from -1 to 1.")
      .def(nb::init<>())
      .def(
          "reset",
          [](rl::Pendulum& e, Rng& rng) {
            e.reset(rng);
            return Array::from(std::span<const float>(e.observe()), Shape{3});
          },
          "rng"_a)
      .def("observe", [](const rl::Pendulum& e) { return Array::from(std::span<const float>(e.observe()), Shape{3}); })
      .def(
          "step",
          [](rl::Pendulum& e, double torque) {
            const auto control = static_cast<float>(torque);
            return e.step({&control, 1});
          },
          "torque"_a)
      .def_ro("steps", &rl::Pendulum::steps);
  nb::class_<rl::GridWorld>(n, "GridWorld", "A way through a grid, from S to G, round walls (#) and past pits (o).")
      .def(nb::init<std::vector<std::string>, int>(), "rows"_a, "max_steps"_a = 100)
      .def(
          "reset",
          [](rl::GridWorld& e, Rng& rng) {
            e.reset(rng);
            return e.observe();
          },
          "rng"_a)
      .def("observe", &rl::GridWorld::observe)
      .def(
          "step",
          [](rl::GridWorld& e, int action) {
            if (action < 0 || action >= rl::GridWorld::kActions) throw nb::value_error("step: action is 0 to 3");
            return e.step(action);
          },
          "action"_a)
      .def_prop_ro("cells", &rl::GridWorld::cells)
      .def("shortest", &rl::GridWorld::shortest);
}

void bind_sampler(nb::module_& n) {
  nb::class_<rl::Sampler>(n, "Sampler", "Which entries of a replay to learn from: uniformly, or by priority.")
      .def(
          "__init__",
          [](rl::Sampler* self, std::int64_t capacity, bool prioritised, double alpha) {
            new (self) rl::Sampler({capacity, prioritised, alpha});
          },
          "capacity"_a = 20000, "prioritised"_a = true, "alpha"_a = 0.6)
      .def("__len__", &rl::Sampler::size)
      .def_prop_ro("capacity", &rl::Sampler::capacity)
      .def("place_for_new", &rl::Sampler::place_for_new,
           "The place for a new entry, which takes the oldest one's when all are used.")
      .def(
          "sample",
          [](rl::Sampler& s, Rng& rng, std::int64_t count, double beta) {
            if (s.size() == 0) throw nb::value_error("sample: the replay is empty");
            std::vector<std::int64_t> entries(static_cast<std::size_t>(count));
            Array weights = Array::empty({count});
            s.sample(rng, beta, entries, std::span(weights.mutable_data<float>(), static_cast<std::size_t>(count)));
            Array indices = Array::empty({count}, DType::i32);
            std::int32_t* out = indices.mutable_data<std::int32_t>();
            for (std::size_t i = 0; i < entries.size(); ++i) out[i] = static_cast<std::int32_t>(entries[i]);
            return nb::make_tuple(nb::cast(indices), nb::cast(weights));
          },
          "rng"_a, "count"_a, "beta"_a = 0.4, "Indices (i32) and the weights that take the bias out again.")
      .def(
          "update",
          [](rl::Sampler& s, nb::handle entries, nb::handle errors) {
            const Array e = copied_array(entries, DType::i32), err = copied_array(errors, DType::f32);
            std::vector<std::int64_t> list;
            for (std::int32_t i : e.to_vector<std::int32_t>()) {
              if (i < 0 || i >= s.size()) throw nb::index_error("update: an entry that is not in the replay");
              list.push_back(i);
            }
            if (err.count() != e.count()) throw nb::value_error("update: as many errors as entries");
            s.update(list, err.to_vector<float>());
          },
          "entries"_a, "errors"_a);
}

rl::NetOptions net_options(std::int64_t features, std::int64_t outputs, const std::vector<std::int64_t>& hidden,
                           std::int64_t active, const std::string& activation, bool layer_norm, bool residual,
                           bool dueling, bool noisy) {
  if (activation != "relu" && activation != "elu") throw nb::value_error("activation: 'relu' or 'elu'");
  return {{features, active}, hidden,   outputs, activation == "elu" ? rl::Activation::elu : rl::Activation::relu,
          layer_norm,         residual, dueling, noisy};
}

void copy_into(Array& to, nb::handle from) { to.copy_from(ArrayIn(from), here()); }

void bind_learners(nb::module_& n) {
  nb::class_<rl::Net, nn::Module>(
      n, "Net", "Hidden layers and outputs; with active > 0 the input is the numbers of features that are 1.")
      .def(
          "__init__",
          [](rl::Net* self, std::int64_t features, std::int64_t outputs, const std::vector<std::int64_t>& hidden,
             std::int64_t active, const std::string& activation, bool layer_norm, bool residual, bool dueling,
             bool noisy) {
            new (self) rl::Net(
                net_options(features, outputs, hidden, active, activation, layer_norm, residual, dueling, noisy));
          },
          "features"_a, "outputs"_a, "hidden"_a = std::vector<std::int64_t>{256, 128, 64}, "active"_a = 0,
          "activation"_a = "relu", "layer_norm"_a = false, "residual"_a = false, "dueling"_a = false,
          "noisy"_a = false);
  nb::class_<rl::Dqn>(n, "Dqn",
                      "A Q-net and its target net, learned from transitions; train, act and sync are compiled steps.")
      .def(
          "__init__",
          [](rl::Dqn* self, const rl::Net& net, std::int64_t batch, double lr, double clip, bool double_q, double huber,
             double tau, std::int64_t acting, int threads) {
            rl::DqnOptions o;
            o.batch = batch;
            o.lr = lr;
            o.clip = clip;
            o.double_q = double_q;
            o.huber = huber;
            o.tau = tau;
            o.acting = acting;
            CompileOptions c;
            c.threads = threads;
            new (self) rl::Dqn(net.options(), o, c);
          },
          "net"_a, "batch"_a = 64, "lr"_a = 1e-3, "clip"_a = 0.0, "double_q"_a = true, "huber"_a = 1.0, "tau"_a = 0.01,
          "acting"_a = 1, "threads"_a = 0, "net says what the Q-net looks like; the learner makes its own.")
      .def(
          "train",
          [](rl::Dqn& d, nb::handle from, nb::handle action, nb::handle reward, nb::handle to, nb::handle discount,
             nb::handle weight) {
            rl::Dqn::Batch& b = d.batch();
            copy_into(b.from, from);
            copy_into(b.to, to);
            const auto column = [](Array& target, nb::handle source) {
              target.copy_from(ArrayIn(source).get().reshape(target.shape(), here()), here());
            };
            column(b.action, action);
            column(b.reward, reward);
            column(b.discount, discount);
            if (weight.is_none())
              b.weight.fill(1);
            else
              column(b.weight, weight);
            const auto trained = d.train();
            return nb::make_tuple(trained.loss,
                                  nb::cast(Array::from(trained.errors, Shape{std::ssize(trained.errors)})));
          },
          "observations"_a, "actions"_a, "rewards"_a, "next_observations"_a, "discounts"_a,
          "weights"_a.none() = nb::none(),
          "One update: (loss, errors). discounts are gamma, or 0 where the episode ended.")
      .def(
          "act",
          [](rl::Dqn& d, nb::handle observations) {
            d.acting_input().copy_from(ArrayIn(observations), here());
            const auto q = d.act();
            const std::int64_t rows = d.acting_input().shape()[0];
            return Array::from(q, Shape{rows, std::ssize(q) / rows});
          },
          "observations"_a, "Q [acting, outputs].")
      .def("sync", &rl::Dqn::sync)
      .def("copy_to_target", &rl::Dqn::copy_to_target)
      .def("set_lr", &rl::Dqn::set_lr, "lr"_a)
      .def("describe", [](const rl::Dqn& d) { return d.train_step().describe(); })
      .def("parameters", [](const rl::Dqn& d) { return d.net().parameters(); })
      .def(
          "named_states",
          [](const rl::Dqn& d) {
            CheckpointStates all;
            d.add_to(all);
            nb::dict out;
            for (const auto& [name, state] : all.all()) out[name.c_str()] = nb::cast(state);
            return out;
          },
          "All that a checkpoint must hold.");
  nb::class_<rl::Curriculum>(n, "Curriculum", "How far from the goal episodes begin; goes on by success.")
      .def(
          "__init__",
          [](rl::Curriculum* self, double first, double last, double step, const std::vector<double>& thresholds,
             std::int64_t window) {
            new (self) rl::Curriculum({first, last, step, thresholds, window});
          },
          "first"_a = 1.0, "last"_a = 4.0, "step"_a = 0.1, "thresholds"_a = std::vector<double>{0.85, 0.70, 0.55},
          "window"_a = 200)
      .def_prop_ro("depth", &rl::Curriculum::depth)
      .def("draw", &rl::Curriculum::draw, "rng"_a)
      .def("record", &rl::Curriculum::record, "success"_a)
      .def("success", &rl::Curriculum::success);
  n.def(
      "value_of", [](nb::handle outputs) { return rl::value_of(tensor_from(outputs, here())); }, "outputs"_a);
}

}  // namespace

void bind_rl(nb::module_& m) {
  nb::module_ n = m.def_submodule("rl", "Reinforcement learning: environments, replay, learners.");
  bind_environments(n);
  bind_sampler(n);
  bind_learners(n);
  bind_agents(n);
}

}  // namespace wr::python
