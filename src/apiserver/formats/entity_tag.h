// Entity tags: a client that already has a document gets a 304 instead of the document.
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace berth::apiserver {

// The tag of a document, without quotes: its SHA-512 in capital hex digits.
std::string EntityTag(std::string_view document);

// Sets the ETag header to `tag`. Makes `response` a 304 without a body if the request's
// If-None-Match names the tag or is "*".
void TagEntity(const http::Request& request, std::string_view tag, http::Response& response);

}  // namespace berth::apiserver
