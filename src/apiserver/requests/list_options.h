// Parses and checks the query of a list or watch, as Kubernetes does.
#pragma once

#include <chrono>
#include <optional>

#include "api/selector.h"
#include "apiserver/formats/continue_token.h"
#include "apiserver/requests/resource_request.h"

namespace berth::apiserver {

// The labelSelector and fieldSelector of a request.
struct Selection {
  api::LabelSelector labels;
  api::FieldSelector fields;

  bool selects_all() const { return labels.empty() && fields.empty(); }
  bool Matches(const Json& object) const;  // `object` has the stored form
};

struct ListQuery {
  Selection selection;
  size_t limit = 0;                   // of objects in the answer; 0: all
  store::Revision revision = 0;       // the list must not be older than this; 0: any
  bool exact = false;                 // the list must be of exactly this revision
  std::optional<ContinueToken> from;  // where a continued list starts
};

struct WatchQuery {
  Selection selection;
  store::Revision revision = 0;      // the last revision that the client knows; 0: none
  bool send_initial_events = false;  // first send the objects that exist
  bool bookmarks = false;
  std::chrono::seconds timeout{0};  // at most 24 hours; 0: the server's default
};

// Returns the resourceVersion of a query, and 0 if it is absent. 422: it is no revision.
base::StatusOr<store::Revision> ParseRevision(const http::Query& query);

// KubeErrors: 400 for malformed values, 422 for combinations that Kubernetes refuses.
base::StatusOr<ListQuery> ParseListQuery(const ResourceRequest& request);
base::StatusOr<WatchQuery> ParseWatchQuery(const ResourceRequest& request);

}  // namespace berth::apiserver
