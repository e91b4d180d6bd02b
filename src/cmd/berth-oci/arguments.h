// Reads the command line of an OCI runtime (runc, crun), as far as this program needs it.
#pragma once

#include <string>
#include <vector>

namespace berth::oci {

struct Arguments {
  std::string command;  // "create", "delete", ...; empty: none
  std::string id;       // the last argument after the command that is not a flag
  std::string bundle;   // of create and run; empty: the working folder
  std::string log;      // the file in which the caller reads errors; empty: none
  bool log_is_json = false;
};

// `argv` begins with the program's name.
Arguments ReadArguments(const std::vector<std::string>& argv);

}  // namespace berth::oci
