// The verbs that read: get and list.
//
// A list that is longer than a page goes out page by page, each read when the one before it has
// left, so that memory is bounded by the page and not by the number of objects.
#pragma once

#include <memory>

#include "apiserver/api_context.h"

namespace berth::apiserver {

class ResourceReader {
 public:
  explicit ResourceReader(ApiContext& context) : context_(context) {}

  // On a worker.
  void Get(const ResourceRequest& request);
  void List(const ResourceRequest& request);

 private:
  ApiContext& context_;
};

// 504 with the cause ResourceVersionTooLarge: the client knows a revision that the server has not
// reached.
base::Status TooLargeRevision(store::Revision asked, store::Revision current);

}  // namespace berth::apiserver
