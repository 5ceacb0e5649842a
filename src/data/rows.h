// Copies examples of a data set into a batch: converted, scaled and augmented.
#pragma once

#include "windrow/data.h"

namespace wr::data {

/// Checks that data and options fit together, and gives what a batch looks like.
std::pair<Spec, Spec> batch_specs(const Dataset& data, const LoaderOptions& options);

/// Fills batches from the data set.
FillBatch fill_from(const Dataset& data, const LoaderOptions& options);

}  // namespace wr::data
