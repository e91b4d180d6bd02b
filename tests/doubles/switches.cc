#include "switches.h"

#include <fstream>

namespace berth::doubles {

Switches::On Switches::Read() const {
  On on;
  std::ifstream file(file_);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) on.names.insert(line);
  }
  return on;
}

}  // namespace berth::doubles
