#include "base/file.h"
#include "windrow/error.h"
#include "windrow/profile.h"

namespace wr {

void write_profiles(const std::string& path, std::span<const Profile> profiles) {
  std::string text;
  if (path.ends_with(".trace.json") || path.ends_with(".trace")) {
    text = to_trace(profiles);
  } else if (path.ends_with(".json")) {
    text = to_json(profiles);
  } else if (path.ends_with(".html")) {
    text = to_html(profiles);
  } else if (path.ends_with(".txt")) {
    for (const Profile& p : profiles) text += p.to_table() + p.bottleneck_report() + "\n";
  } else {
    throw Error(path + ": a profile is written to a file that ends with .json, .trace.json, .html or .txt");
  }
  FileWriter file(path);
  file.write(text);
  file.commit();
}

}  // namespace wr
