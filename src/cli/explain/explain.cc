#include "cli/explain/explain.h"

#include "cli/explain/chain.h"
#include "cli/explain/gather.h"
#include "cli/output.h"

namespace berth::cli {

using base::StatusCode;

StatusOr<bool> ExplainObject(kube::Client& client, const ApiOptions& api,
                             const ExplainOptions& options, const base::Clock& clock) {
  if (!options.output.empty() && options.output != "json") {
    return base::Error(StatusCode::kInvalidArgument,
                       "-o '{}' is unknown; the only known format is json", options.output);
  }
  KindFinder kinds(client);
  ASSIGN_OR_RETURN(const std::vector<Target> targets, ParseTargets(options.words, kinds));
  if (targets.size() != 1 || targets[0].names.size() != 1) {
    return base::Error(StatusCode::kInvalidArgument, "explain takes one KIND/NAME");
  }
  const api::KindInfo& kind = *targets[0].kind;
  ASSIGN_OR_RETURN(const std::vector<explain::State> states,
                   explain::GatherStates(client, kind, NamespaceFor(kind, api), targets[0].names[0],
                                         options.flight_folder, clock));
  const explain::Explanation explanation = explain::ExplainStates(states);
  Print(options.output == "json" ? explain::RenderJson(explanation).dump(2) + "\n"
                                 : explain::RenderText(explanation));
  return explanation.verdict() != "blocked";
}

}  // namespace berth::cli
