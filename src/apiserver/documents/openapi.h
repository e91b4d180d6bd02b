// /openapi/v2 and /openapi/v3: what the fields of the kinds are, and what can be asked of them.
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

#include "apiserver/http_message.h"
#include "apiserver/kinds/kind_registry.h"
#include "base/mutex.h"

namespace berth::apiserver {

class OpenApiDocuments {
 public:
  // The answer at `path`; nullopt if there is none. On a worker: it may have to make a document.
  std::optional<Response> Find(const ServedKinds& kinds, std::string_view path,
                               const Request& request);

  static std::vector<std::string> Paths(const ServedKinds& kinds);

 private:
  struct Document {
    std::vector<KindPtr> kinds;  // that it is about
    std::string tag;
    std::string compressed;
  };
  using DocumentPtr = std::shared_ptr<const Document>;
  using Make = std::string (*)(const std::vector<KindPtr>& kinds);

  Response Index(const ServedKinds& kinds, const Request& request);
  std::optional<Response> GroupVersion(const ServedKinds& kinds, const std::string& name,
                                       const Request& request);
  Response VersionTwo(const ServedKinds& kinds, const Request& request);
  // The document `key` about `kinds`, made if it isn't there or is about others.
  DocumentPtr Get(const std::string& key, const std::vector<KindPtr>& kinds, Make make)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void ForgetOthers(const std::map<std::string, std::vector<KindPtr>>& served)
      ABSL_LOCKS_EXCLUDED(mutex_);
  static Response Send(const Document& document, const Request& request,
                       std::string_view content_type);

  base::Mutex mutex_;
  std::map<std::string, DocumentPtr> documents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::apiserver
