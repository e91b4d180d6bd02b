// Builds an OpenAPI version 2 document in protobuf, which kubectl asks for: the message
// openapi.v2.Document of gnostic.
//
// The document is built from JSON parts, one after the other, so that the whole tree is never in
// memory. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace berth::apiserver {

class OpenApiMessage {
 public:
  // `item` is a path item, `schema` a definition, each in the JSON form of version 2.
  void AddPath(std::string_view path, const base::Json& item);
  void AddDefinition(std::string_view name, const base::Json& schema);

  // The document's bytes.
  std::string Finish(std::string_view title, std::string_view version) const;

 private:
  std::string paths_;
  std::string definitions_;
};

}  // namespace berth::apiserver
