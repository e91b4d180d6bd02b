// Serves /openapi/v2 and /openapi/v3: the fields of the kinds and the operations on them.
//
//   /openapi/v3                  {"paths": {"apis/apps/v1": {"serverRelativeURL": ...?hash=H}}}
//   /openapi/v3/apis/apps/v1     one document for each group and version, in JSON
//   /openapi/v2                  one document of all, in JSON or protobuf
//
// A document is made when it is first asked for, kept compressed, and made again when its kinds
// change. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/kinds/kind_registry.h"
#include "base/mutex.h"
#include "http/message.h"

namespace berth::apiserver {

class OpenApiDocuments {
 public:
  // The answer at `path`; nullopt if there is no document. 406 if the client accepts no format of
  // the document. Must be called on a worker, because it may have to make a document.
  std::optional<http::Response> AnswerPath(const ServedKinds& kinds, std::string_view path,
                                           const http::Request& request);

  // The paths of all OpenAPI documents, for the index at "/".
  static std::vector<std::string> ListPaths(const ServedKinds& kinds);

 private:
  struct Document {
    std::vector<KindPtr> kinds;  // the kinds that it describes
    std::string tag;
    std::string compressed;
    size_t text_bytes = 0;  // before it was compressed
  };
  using DocumentPtr = std::shared_ptr<const Document>;
  using Make = std::string (*)(const std::vector<KindPtr>& kinds);

  http::Response AnswerIndex(const ServedKinds& kinds, const http::Request& request);
  std::optional<http::Response> AnswerGroupVersion(const ServedKinds& kinds,
                                                   const std::string& name,
                                                   const http::Request& request);
  http::Response AnswerVersion2(const ServedKinds& kinds, const http::Request& request);
  // The document `key` about `kinds`. `make` makes it if it is missing or describes other kinds.
  DocumentPtr FindOrMake(const std::string& key, const std::vector<KindPtr>& kinds, Make make)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes the documents whose key is not in `served` and does not begin with '/'.
  void RemoveOthers(const std::map<std::string, std::vector<KindPtr>>& served)
      ABSL_LOCKS_EXCLUDED(mutex_);
  static http::Response MakeResponse(const Document& document, const http::Request& request,
                                     std::string_view content_type);

  base::Mutex mutex_;
  std::map<std::string, DocumentPtr> documents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::apiserver
