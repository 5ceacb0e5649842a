#include "apps/write_file.h"

#include <filesystem>
#include <fstream>

#include "windrow/error.h"

namespace wr::apps {

void write_file(const std::string& path, const std::string& bytes) {
  const std::string unfinished = path + ".new";
  {
    std::ofstream out(unfinished, std::ios::binary);
    out << bytes;
    out.close();
    if (!out) throw Error(path + ": cannot be written");
  }
  std::error_code error;
  std::filesystem::rename(unfinished, path, error);
  if (error) throw Error(path + ": cannot be written: " + error.message());
}

}  // namespace wr::apps
