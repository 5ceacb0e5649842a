// What bounds a step and what to do about it, from its profile alone.
#pragma once

#include <vector>

#include "windrow/profile.h"

namespace wr {

std::vector<Profile::Bottleneck> find_bottlenecks(const Profile& profile);

}  // namespace wr
