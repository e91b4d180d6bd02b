// The ways in which the CSI driver double can be wrong: one for each rule of the specification that
// a driver can break and that matters to its callers.
#pragma once

#include <span>
#include <string_view>

namespace berth::doubles {

struct Rule {
  std::string_view name;     // the switch
  std::string_view section;  // of the CSI specification (v1.12)
  std::string_view rule;     // what it asks for
  std::string_view wrong;    // what the double does
  bool per_method = false;   // switched as NAME:METHOD
};

std::span<const Rule> Rules();

}  // namespace berth::doubles
