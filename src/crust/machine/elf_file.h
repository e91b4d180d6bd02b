// Finds what a program needs to run: its interpreter and its shared libraries, as its ELF file
// names them (elf(5)). The file is only read, and nothing of it is run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace berth::crust {

struct ElfNeeds {
  std::string interpreter;             // the path of PT_INTERP; "": there is none
  std::vector<std::string> libraries;  // the names of DT_NEEDED, in their order
};

// Reads the content of a 64-bit little-endian ELF file. INVALID_ARGUMENT: it is none.
base::StatusOr<ElfNeeds> ReadElfNeeds(std::string_view file);

// The folders in which the loader looks without being told.
std::vector<std::string> LoaderFolders();

struct ProgramFile {
  std::string path;  // where a program looks for it
  std::string content;
};
// Reads the program, its interpreter and all libraries that it or they need, each once; a library
// is in the first of `folders` that has it. FAILED_PRECONDITION: one is missing, or is no ELF file.
base::StatusOr<std::vector<ProgramFile>> ReadProgram(const std::string& program,
                                                     const std::vector<std::string>& folders);

}  // namespace berth::crust
