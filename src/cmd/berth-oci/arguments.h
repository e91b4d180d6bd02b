// Reads the command line of an OCI runtime (runc, crun), as far as this program needs it.
#pragma once

#include <string>
#include <vector>

namespace berth::oci {

struct Arguments {
  std::string command;  // "create", "delete", ...; empty: none
  std::string id;       // the last argument behind the command that is no flag
  std::string bundle;   // of create and run; empty: the working folder
  std::string log;      // where the caller reads errors; empty: nowhere
  bool log_is_json = false;
};

// `argv` with the program's name first.
Arguments ReadArguments(const std::vector<std::string>& argv);

}  // namespace berth::oci
