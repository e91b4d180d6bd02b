// Checks the parts that several kinds have in common: labels, selectors, tolerations, resources,
// references.
#pragma once

#include "apiserver/kinds/checked.h"

namespace berth::apiserver {

// Keys and values of labels, annotations' keys.
void CheckLabels(const Checked& labels);
void CheckAnnotations(const Checked& annotations);

// metav1.LabelSelector; an absent one is valid.
void CheckLabelSelector(const Checked& selector);
// v1.NodeSelector: required terms of node affinity, also of volumes. An absent one is valid.
void CheckNodeSelector(const Checked& selector);
// One NodeSelectorTerm.
void CheckNodeSelectorTerm(const Checked& term);
// spec.tolerations[]
void CheckTolerations(const Checked& tolerations);

// ResourceRequirements: names, quantities, and no request above its limit.
void CheckResources(const Checked& resources);
// The amounts of one ResourceList.
void CheckResourceAmounts(const Checked& amounts);

// "driver.example.com": required, at most 63 characters, a DNS subdomain in upper or lower case.
void CheckCsiDriverName(const Checked& name);
// A SecretReference with both name and namespace; an absent one is valid.
void CheckSecretReference(const Checked& reference);

// The name of a provisioner: "example.com/Name" in upper or lower case. INVALID_ARGUMENT if it is
// not valid.
base::Status CheckAnyCaseQualifiedName(std::string_view name);
// "kubernetes", "orphan", "foregroundDeletion", or a name with a domain. INVALID_ARGUMENT for other
// names.
base::Status CheckFinalizerName(std::string_view name);

// Parameters of StorageClass and VolumeAttributesClass: bounded in number and size.
void CheckParameters(const Checked& parameters);

// The lifetime of a service account's token: from ten minutes to 2^32 seconds.
void CheckTokenLifetime(const Checked& seconds);

}  // namespace berth::apiserver
