// Fuzzes what the apps read of a checkpoint before they build anything: its settings and its numbers. Settings that are
// accepted must come back the same.
#include <string>

#include "apps/automaton/automaton.h"
#include "apps/common/metadata.h"
#include "apps/cube/settings.h"
#include "apps/fashion/settings.h"
#include "data/safetensors.h"
#include "target.h"

namespace {

template <class Read>
void refuse_or(Read read) {
  try {
    read();
  } catch (const wr::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return refuse_or_read(data, size, [&](const wr::Source& source) {
    const wr::SafetensorsHeader header = wr::data::read_safetensors_header(source);
    refuse_or([&] { wr::apps::settings_of(header.metadata, "input"); });
    refuse_or([&] { wr::apps::cube_settings_of(header, "input"); });
    refuse_or([&] { wr::apps::automaton_settings_of(header, "input"); });
    const wr::apps::MetadataReader reader(header.metadata, "input");
    for (const auto& [name, text] : header.metadata) {
      refuse_or([&] { reader.rows(name, 3); });
      refuse_or([&] { reader.bits(name); });
      refuse_or([&] {
        if (const auto n = reader.whole(name, -5, 5); n < -5 || n > 5) __builtin_trap();
      });
      refuse_or([&] {
        if (const double x = reader.number(name, 0, 1); !(x >= 0 && x <= 1)) __builtin_trap();
      });
    }
  });
}
