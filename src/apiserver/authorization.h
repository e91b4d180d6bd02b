// Who may do what. One question, asked once per request, before anything else is read.
#pragma once

#include <string_view>

#include "apiserver/http_message.h"
#include "base/status.h"

namespace berth::apiserver {

// What is asked for: a resource (with verb), or a path outside the resources.
struct AccessAttributes {
  std::string_view verb;
  std::string_view group;
  std::string_view resource;  // empty: a path
  std::string_view subresource;
  std::string_view ns;
  std::string_view name;
  std::string_view path;
};

// OK, or 403 in Kubernetes' words. Members of system:masters may do everything.
base::Status Authorize(const User& user, const AccessAttributes& attributes);

}  // namespace berth::apiserver
