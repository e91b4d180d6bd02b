// How controllers end pods that no other program will end: they write the reason to the pod's
// status first, and then delete the pod.
#pragma once

#include <string>

#include "api/kinds/kinds.h"
#include "controllers/controller.h"

namespace berth::controllers {

// Why a pod is disrupted: its condition DisruptionTarget.
struct Disruption {
  std::string reason;  // "" for no condition
  std::string message;
};

// Writes the condition, unless the pod has it already. NOT_FOUND: the pod is gone.
base::Status MarkDisrupted(const Context& context, kube::Informer<api::Pod>& pods,
                           const api::Pod& pod, const Disruption& disruption);

// Writes the condition and the phase Failed, unless the pod has ended, and then deletes the pod
// without a grace period. Only for pods that no node agent will ever end. OK if the pod is gone
// already.
base::Status FailAndDelete(const Context& context, kube::Informer<api::Pod>& pods,
                           const api::Pod& pod, const Disruption& disruption = {});

}  // namespace berth::controllers
