// For tests of the program: starts it as a shell would, and keeps what it says.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "temporary_files.h"

#ifdef WINDROW_PROGRAM
namespace wr {

struct Said {
  int code;  // -1: ended by a signal
  std::string out, error;
};

struct ProgramOptions {
  std::string input = "";    // what it reads from its standard input
  std::string folder = ".";  // where it starts
  std::string before = "";   // commands of the shell that starts it, each ended by a semicolon
};

/// `windrow WORDS`; the words are quoted for a shell where they need it.
inline Said run_program(const std::string& words, const ProgramOptions& options = {}) {
  const TemporaryFolder kept;
  write_text(kept / "in", options.input);
  const std::string command = "cd '" + options.folder + "'; " + options.before + " exec '" WINDROW_PROGRAM "' " +
                              words + " < '" + (kept / "in") + "' > '" + (kept / "out") + "' 2> '" + (kept / "error") +
                              "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(kept / "out"), read_text(kept / "error")};
}

}  // namespace wr
#endif
