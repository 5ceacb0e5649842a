// The readers on any source: what the public functions do with a file, and fuzzers and tests with memory.
#pragma once

#include <map>
#include <string>

#include "base/file.h"
#include "data/stream.h"
#include "windrow/data.h"

namespace wr::data {

Array read_idx(const Source& source, const ReadLimits& limits);
Array read_npy(const Source& source, const ReadLimits& limits);
/// From the stream of a file or of an archive's member.
Array read_npy(Reader& reader);
std::map<std::string, Array> read_npz(const Source& source, const ReadLimits& limits);
Table read_csv(const Source& source, const CsvOptions& options);

/// What stands before the elements of an array in an NPY file.
std::string npy_header(const Array& array);

}  // namespace wr::data
