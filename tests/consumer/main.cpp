// The smallest program that uses an installed Windrow.
#include <windrow/windrow.h>

#include <cstdio>

int main() {
  const wr::Shape shape{64, 784};
  std::puts(wr::to_string(shape).c_str());
  return wr::to_string(shape) == "[64,784]" ? 0 : 1;
}
