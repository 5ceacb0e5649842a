// From what an executor wrote down to a profile that names the user's lines; and the list of steps that profile
// themselves.
#pragma once

#include <string>

#include "step/inside.h"
#include "windrow/profile.h"

namespace wr {

Profile make_profile(Step::Inside& step);
/// What is known of a step before it runs, and its memory.
Profile profile_of_plan(const Step::Inside& step);
/// The same as make_profile for one that runs on a device: launches and transfers.
Profile make_device_profile(Step::Inside& step);
/// Whether what it does is being written down.
bool is_recorded(const Step::Inside& step);

/// Values that had to be complete before the next phase could begin.
std::vector<Profile::Cut> find_cuts(const plan::Schedule& schedule);

/// For steps compiled while profile_all_steps() is on, or under WINDROW_PROFILE: keeps their profile when they end.
void watch(Step::Inside& step);
void unwatch(Step::Inside& step);

}  // namespace wr
