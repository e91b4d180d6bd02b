// What `berth explain` shows of a volume: each link of its chain with a mark, and the causes that
// block or delay it. The functions are pure.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/explain/rules.h"

namespace berth::cli::explain {

enum class Mark { kOk, kWaiting, kBlocked };

struct Step {
  Link link;
  Mark mark;
  std::string text;
};

// Returns the links that concern the subject, in order, with their marks.
std::vector<Step> BuildChain(const State& state, const std::vector<Cause>& causes);

// The chain of one volume.
struct Way {
  std::string volume;  // the pod's name for it; empty: the subject has one way
  std::vector<Step> chain;
  std::vector<Cause> causes;
};

struct Explanation {
  std::string subject;
  std::string ns;
  std::string flights;  // why the roles' flight records could not be read; empty: they were read
  std::vector<Way> ways;
  // The causes of all ways; those that block come before those that only wait. Empty: no rule found
  // a cause.
  std::vector<Cause> causes;

  // "blocked": a cause blocks. "waiting": there are causes, but none blocks, or a link of a chain
  // is not done yet. Otherwise "ok".
  std::string_view verdict() const;
};

// `states` must not be empty; they are those of one subject (GatherStates).
Explanation ExplainStates(const std::vector<State>& states);

std::string RenderText(const Explanation& explanation);
base::Json RenderJson(const Explanation& explanation);

}  // namespace berth::cli::explain
