// TensorBoard's event files: records of length, checksum, protocol buffer, checksum. Scalars alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "windrow/report.h"

namespace wr::report {

/// CRC-32C (Castagnoli), as the records have it after TensorFlow's mask.
std::uint32_t masked_crc32c(std::string_view bytes);

/// The record that every event file begins with.
std::string event_file_head(double wall_time);
/// One record with all figures of a point.
std::string event_record(double wall_time, std::int64_t step, const Values& values);

/// Any event as a record: length, checksum, bytes, checksum.
std::string framed(const std::string& event);

/// Adds the scalars of an event file to `points`, one point a record. A record that was not written whole ends it;
/// checksums that are wrong, and lengths that the file cannot hold, are refused with the path and the byte. `begin` is
/// the first event's time: set where it is below 0, and what seconds count from.
void read_events(const std::string& path, std::string_view bytes, double& begin, std::vector<Point>& points);

}  // namespace wr::report
