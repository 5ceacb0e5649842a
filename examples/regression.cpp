// Regression on a CSV file: predicts the fuel consumption of cars from their weight, power and age.
//
//   regression [cars.csv]
#include <windrow/windrow.h>

#include <cmath>
#include <cstdio>

int main(int argc, char** argv) try {
  // Some columns of the table, and the one to be predicted.
  const wr::data::Table table = wr::data::read_csv(argc > 1 ? argv[1] : WINDROW_EXAMPLES "/cars.csv",
                                                   {.columns = {"weight", "power", "age", "consumption"}});
  const wr::Array inputs = table.range(0, 3), targets = table.range(3, 4);

  // Each column to mean 0 and deviation 1: nets learn from numbers of that size.
  const wr::Array middle = wr::mean(inputs, 0), deviation = wr::sqrt(wr::variance(inputs, 0));
  const wr::data::Split cars = wr::data::split({(inputs - middle) / deviation, targets}, 0.2);

  wr::nn::Sequential net{wr::nn::Dense(3, 16), wr::nn::Tanh(), wr::nn::Dense(16, 1)};
  wr::optim::Adam adam({.lr = 1e-2});
  auto train = wr::compile(
      [&](wr::Tensor x, wr::Tensor y) {
        const wr::Tensor loss = wr::loss::mse(net(x), y);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      wr::f32(wr::any, 3), wr::f32(wr::any, 1));  // any number of cars: the last batch of an epoch is a short one
  auto predict = wr::compile([&](wr::Tensor x) { return net(x, wr::nn::Mode::eval); }, wr::f32(1, 3));

  wr::data::Loader loader(cars.train, {.batch = 32, .rest = wr::data::LoaderOptions::Rest::keep});
  for (int epoch = 1; epoch <= 200; ++epoch) {
    double sum = 0;
    for (auto& [x, y] : loader) sum += double{train(x, y)};
    if (epoch % 50 == 0) std::printf("epoch %3d  loss %.3f\n", epoch, sum / double(loader.batches_per_epoch()));
  }

  double squares = 0;
  std::printf("\ncars the net has not seen, litres for 100 km\n  predicted  measured\n");
  for (std::int64_t i = 0; i < cars.test.count(); ++i) {
    const float guess = predict(cars.test.x.slice(0, i, i + 1).contiguous());
    const float truth = cars.test.y.at<float>({i, 0});
    squares += std::pow(double{guess} - double{truth}, 2);
    if (i < 5) std::printf("  %9.1f  %8.1f\n", double{guess}, double{truth});
  }
  const double error = std::sqrt(squares / double(cars.test.count()));
  std::printf("typical error: %.2f litres\n", error);
  return error < 1 ? 0 : 1;
} catch (const wr::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
