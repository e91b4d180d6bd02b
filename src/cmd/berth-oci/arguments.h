// Reads the command line of an OCI runtime (runc, crun), as far as this program needs it.
#pragma once

#include <string>
#include <vector>

namespace berth::oci {

struct Arguments {
  std::string command;             // "create", "delete", ...; empty: none
  std::vector<std::string> words;  // after the command, without the flags
  std::string id;                  // the first of them
  std::string bundle;              // of create and run; empty: the working folder
  std::string log;                 // the file in which the caller reads errors; empty: none
  bool log_is_json = false;

  // Needed only for containers of a guest.
  std::string root = "/run/runc";  // where the runtime keeps its containers
  std::string pid_file;            // of create and exec; empty: none
  std::string console_socket;      // of create and exec; empty: there is no terminal
  std::string process;             // the file of exec with the process
  std::string resources;           // the file of update with the limits; "-": standard input
  bool all = false;                // of kill
  bool force = false;              // of delete
  bool detach = false;             // of exec
};

// `argv` begins with the program's name.
Arguments ReadArguments(const std::vector<std::string>& argv);

}  // namespace berth::oci
