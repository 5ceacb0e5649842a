// `windrow doctor`: what was detected and chosen.
#pragma once

namespace wr::cli {

struct DoctorOptions {
  bool measure = false;   // the machine anew, and remember it
  bool machines = false;  // list the built-in ones instead
  bool describe = false;  // print the machine as WINDROW_MACHINE=FILE reads it
  bool json = false;
  bool selftest = false;  // of the device that WINDROW_DEVICE names
};

int doctor(const DoctorOptions& options = {});

}  // namespace wr::cli
