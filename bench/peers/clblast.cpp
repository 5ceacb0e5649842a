// CLBlast's product of two square matrices on an OpenCL device: the yardstick for ours on the same device.
//   scripts/bench-clblast.sh SIZE PART_OF_THE_PLATFORMS_NAME
#define CL_TARGET_OPENCL_VERSION 120
#include <clblast.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

cl_device_id find(const std::string& wanted) {
  cl_uint count = 0;
  clGetPlatformIDs(0, nullptr, &count);
  std::vector<cl_platform_id> platforms(count);
  clGetPlatformIDs(count, platforms.data(), nullptr);
  for (cl_platform_id platform : platforms) {
    char name[256] = {};
    clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, nullptr);
    cl_device_id device = nullptr;
    if (std::string(name).find(wanted) != std::string::npos &&
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) == CL_SUCCESS)
      return device;
  }
  std::fprintf(stderr, "no OpenCL platform is called '%s'\n", wanted.c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: clblast SIZE PLATFORM\n");
    return 2;
  }
  const std::size_t n = std::strtoul(argv[1], nullptr, 10);
  cl_device_id device = find(argv[2]);
  cl_int error = 0;
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
  std::vector<float> host(n * n);
  for (std::size_t i = 0; i < n * n; ++i) host[i] = static_cast<float>(i % 17) / 17;
  cl_mem memory[3];
  for (cl_mem& m : memory)
    m = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 4 * n * n, host.data(), &error);
  double best = 1e30;
  for (int run = 0; run < 40; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const auto status =
        clblast::Gemm<float>(clblast::Layout::kRowMajor, clblast::Transpose::kNo, clblast::Transpose::kNo, n, n, n, 1,
                             memory[0], 0, n, memory[1], 0, n, 0, memory[2], 0, n, &queue, nullptr);
    clFinish(queue);
    if (status != clblast::StatusCode::kSuccess) {
      std::fprintf(stderr, "CLBlast failed: %d\n", static_cast<int>(status));
      return 1;
    }
    best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("CLBlast, product of %zu x %zu: best %.0f us, %.1f GFLOP/s\n", n, n, best,
              2e-3 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / best);
}
