// Defaults and validation of a PodSpec, which is in a pod or in the template of pods.
#pragma once

#include "apiserver/kinds/checked.h"

namespace berth::apiserver {

enum class PodSpecOf { kPod, kTemplate };

// Sets defaults. Host ports on the host's network and requests that follow from limits are set only
// for pods, because the pods of a template get them later.
void DefaultPodSpec(base::Json& spec, PodSpecOf of);
void ValidatePodSpec(const Checked& spec, PodSpecOf of);

// PodTemplateSpec: labels, annotations and spec.
void ValidatePodTemplate(const Checked& pod_template);

// The parts of a PodSpec (pod_containers.cc). `volumes` is the spec's list.
void DefaultContainer(base::Json& container);
void ValidateContainers(const Checked& spec, PodSpecOf of);

// "Guaranteed", "Burstable" or "BestEffort", by the containers' requests and limits.
std::string QosClassOf(const base::Json& spec);

}  // namespace berth::apiserver
