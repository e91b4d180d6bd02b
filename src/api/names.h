// The syntax of names, labels and keys, with Kubernetes' messages for violations.
//
// Each check returns OK or INVALID_ARGUMENT. The message is Kubernetes' text for a field error,
// without the field and value, which the caller knows. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace berth::api {

// An RFC 1123 label: at most 63 of [a-z0-9-], alphanumeric at both ends. Names of namespaces, and
// of volumes and containers of a pod.
base::Status CheckDns1123Label(std::string_view name);

// An RFC 1123 subdomain: labels joined by dots, at most 253 characters. Names of most objects.
base::Status CheckDns1123Subdomain(std::string_view name);

// An RFC 1035 label: as an RFC 1123 label, but it begins with a letter. Versions and names of
// custom resources.
base::Status CheckDns1035Label(std::string_view name);

// A generateName, which becomes the beginning of a subdomain: it may end with '-'.
base::Status CheckNamePrefix(std::string_view prefix);

// "[prefix/]name": keys of labels and annotations, finalizers.
base::Status CheckQualifiedName(std::string_view name);

// At most 63 of [A-Za-z0-9-_.], alphanumeric at both ends, or empty.
base::Status CheckLabelValue(std::string_view value);

// Keys in ConfigMap.data and Secret.data: at most 253 of [-._a-zA-Z0-9], not "." or "..*".
base::Status CheckConfigKey(std::string_view key);

// Returns `text` with its ASCII letters in lower case.
std::string LowerCase(std::string_view text);

// A name that can be one segment of a URL's path: not "." or "..", and without '/' and '%'.
base::Status CheckPathSegment(std::string_view name);

}  // namespace berth::api
