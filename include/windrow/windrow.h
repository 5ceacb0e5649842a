// What most programs include. Besides: report.h, chart.h, agents.h, rl.h, rules.h, circuit.h, bench.h, files.h,
// clock.h.
#pragma once

#include "windrow/array.h"
#include "windrow/checkpoint.h"
#include "windrow/data.h"
#include "windrow/error.h"
#include "windrow/logic.h"
#include "windrow/losses.h"
#include "windrow/nn.h"
#include "windrow/ops.h"
#include "windrow/optim.h"
#include "windrow/profile.h"
#include "windrow/random.h"
#include "windrow/scan.h"
#include "windrow/spec.h"
#include "windrow/step.h"
#include "windrow/tensor.h"
