// How controllers end pods that nobody else will end: what is said in the pod's status first, and
// the delete.
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

// Writes the condition, and phase Failed with `failed` unless the pod has ended. Nothing is written
// that is there already.
base::Status MarkDisrupted(const Context& context, kube::Informer<api::Pod>& pods,
                           const api::Pod& pod, const Disruption& disruption, bool failed);

// MarkDisrupted as failed, then a delete without grace: for pods that no node agent will ever end.
base::Status FailAndDelete(const Context& context, kube::Informer<api::Pod>& pods,
                           const api::Pod& pod, const Disruption& disruption = {});

}  // namespace berth::controllers
