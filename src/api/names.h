// The syntax of names, labels and keys, with Kubernetes' messages for violations.
//
// Each check returns OK or INVALID_ARGUMENT. The message is Kubernetes' text for a field error,
// without the field and value, which the caller knows. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace berth::api {

// At most 63 of [a-z0-9-], alphanumeric at both ends: namespaces, volumes and containers of a pod.
base::Status CheckDns1123Label(std::string_view name);

// At most 253; labels joined by dots: the names of most objects.
base::Status CheckDns1123Subdomain(std::string_view name);

// As a label, but beginning with a letter: versions and names of custom resources.
base::Status CheckDns1035Label(std::string_view name);

// Checks that a generateName can begin such a subdomain or label: a trailing '-' is allowed.
base::Status CheckNamePrefix(std::string_view prefix);

// "[prefix/]name": keys of labels and annotations, finalizers.
base::Status CheckQualifiedName(std::string_view name);

// At most 63 of [A-Za-z0-9-_.], alphanumeric at both ends, or empty.
base::Status CheckLabelValue(std::string_view value);

// Keys in ConfigMap.data and Secret.data: at most 253 of [-._a-zA-Z0-9], not "." or "..*".
base::Status CheckConfigKey(std::string_view key);

// In ASCII lower case.
std::string LowerCase(std::string_view text);

// A single segment of a URL's path: not ".", "..", and without '/' and '%'.
base::Status CheckPathSegment(std::string_view name);

}  // namespace berth::api
