// The flag --feature-gates of the Go sidecars. Each gate of a program is obeyed, or a value that
// would need other behaviour than Berth's is warned of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cmd/go_flags.h"
#include "roles/process_options.h"

namespace berth::cmd {

struct Gate {
  enum class Stage { kAlpha, kBeta, kStable };  // AllAlpha and AllBeta set those of a stage

  std::string name;
  Stage stage;
  void (*apply)(roles::ProcessOptions&,
                bool) = nullptr;  // null: Berth always acts as with `always`
  bool always = true;
  std::string_view reason = {};  // why it has no effect with another value
};

// The flag for a program with these gates. It also takes the gates of the library
// (library_gates.h), and warns of each that is given by its name. AllAlpha and AllBeta set those of
// the library without a warning. It refuses other gates, as the Go programs do.
GoFlag FeatureGates(const std::vector<Gate>& known);

}  // namespace berth::cmd
