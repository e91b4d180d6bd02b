// Checks of the parts that several kinds have in common: labels, selectors, tolerations, resources,
// references.
#pragma once

#include "apiserver/kinds/checked.h"

namespace berth::apiserver {

// Keys and values of labels, annotations' keys.
void CheckLabels(const Checked& labels);
void CheckAnnotations(const Checked& annotations);

// metav1.LabelSelector; one that is absent holds.
void CheckLabelSelector(const Checked& selector);
// v1.NodeSelector: required terms of node affinity, also of volumes. One that is absent holds.
void CheckNodeSelector(const Checked& selector);
// One NodeSelectorTerm.
void CheckNodeSelectorTerm(const Checked& term);
// spec.tolerations[]
void CheckTolerations(const Checked& tolerations);

// ResourceRequirements: names, quantities, and no request above its limit.
void CheckResources(const Checked& resources);
// The amounts of one ResourceList.
void CheckResourceAmounts(const Checked& amounts);

// "driver.example.com": needed, at most 63 characters, a subdomain in any case.
void CheckCsiDriverName(const Checked& name);
// A SecretReference with both name and namespace; one that is absent holds.
void CheckSecretReference(const Checked& reference);

// "example.com/Name" in any case, as provisioners are called.
base::Status CheckAnyCaseQualifiedName(std::string_view name);
// "kubernetes", "orphan", "foregroundDeletion", or one with a domain.
base::Status CheckFinalizerName(std::string_view name);

// Parameters of StorageClass and VolumeAttributesClass: bounded in number and size.
void CheckParameters(const Checked& parameters);

// A ServiceAccount token that lives from ten minutes to 2^32 seconds.
void CheckTokenLifetime(const Checked& seconds);

}  // namespace berth::apiserver
