// Serves the documents about the server itself: version, health, discovery, OpenAPI, and an index
// of them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apiserver/api_context.h"
#include "apiserver/documents/openapi.h"
#include "base/mutex.h"

namespace berth::apiserver {

// Thread-safe.
class Documents {
 public:
  explicit Documents(ApiContext& context) : context_(context) {}  // borrows `context`

  // Sets the "host:port" at which clients reach the server, when it is known.
  void SetAddress(std::string address);

  // Whether `path` may be the path of a document. All other paths are paths of resources.
  static bool MayServe(std::string_view path);
  // Answers a GET or HEAD; 404 if there is no such document, 405 for other methods. Call it on a
  // worker, because it may read the store or make a document.
  void AnswerRequest(http::Exchange& exchange);

 private:
  std::optional<http::Response> FindDocument(std::string_view path, const http::Request& request);
  http::Response MakeIndex();
  std::string address();

  ApiContext& context_;
  OpenApiDocuments open_api_;
  base::Mutex mutex_;
  std::string address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::apiserver
