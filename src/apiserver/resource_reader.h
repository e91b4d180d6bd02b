// The verbs that read: get and list.
//
// A list that is longer than a page is sent page by page. Each page is read only after the previous
// one was sent, so that memory is bounded by the size of a page and not by the number of objects.
#pragma once

#include <memory>

#include "apiserver/api_context.h"

namespace berth::apiserver {

class ResourceReader {
 public:
  explicit ResourceReader(ApiContext& context) : context_(context) {}

  // Each answers the request. Call them on a worker.
  void Get(const ResourceRequest& request);
  void List(const ResourceRequest& request);

 private:
  ApiContext& context_;
};

// 504 with the cause ResourceVersionTooLarge, for a client that names a revision that the server
// has not reached.
base::Status TooLargeRevisionError(store::Revision asked, store::Revision current);

}  // namespace berth::apiserver
