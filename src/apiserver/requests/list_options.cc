#include "apiserver/requests/list_options.h"

#include <algorithm>
#include <charconv>

#include "apiserver/formats/field_errors.h"

namespace berth::apiserver {

using base::Status;

namespace {

constexpr std::chrono::seconds kLongestWatch{24 * 3600};

const api::KindInfo kListOptions{
    .group = "meta.k8s.io", .version = "v1", .kind = "ListOptions", .plural = "", .singular = ""};

base::StatusOr<int64_t> ParseNumber(const http::Query& query, std::string_view key) {
  const std::string& text = query.Get(key);
  int64_t value = 0;
  if (text.empty()) return value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return BadRequestError(
        fmt::format("{}: invalid value \"{}\": must be a whole number", key, text));
  }
  return value;
}

base::StatusOr<Selection> ParseSelection(const ResourceRequest& request) {
  Selection selection;
  auto labels = api::LabelSelector::Parse(request.query.Get("labelSelector"));
  if (!labels.ok()) return BadRequestError(base::Message(labels.status()));
  auto fields = api::FieldSelector::Parse(request.info(), request.query.Get("fieldSelector"),
                                          request.rules->selectable_fields);
  if (!fields.ok()) return BadRequestError(base::Message(fields.status()));
  selection.labels = *std::move(labels);
  selection.fields = *std::move(fields);
  return selection;
}

// Refuses the combinations of list options that Kubernetes refuses.
Status CheckListOptions(const http::Query& query) {
  FieldErrors errors;
  const std::string& match = query.Get("resourceVersionMatch");
  const std::string& revision = query.Get("resourceVersion");
  if (!match.empty()) {
    if (revision.empty()) {
      errors.Forbidden("resourceVersionMatch",
                       "resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if (!query.Get("continue").empty()) {
      errors.Forbidden("resourceVersionMatch",
                       "resourceVersionMatch is forbidden when continue is provided");
    }
    if (match != "Exact" && match != "NotOlderThan") {
      errors.NotSupported("resourceVersionMatch", match, {"Exact", "NotOlderThan", ""});
    }
    if (match == "Exact" && revision == "0") {
      errors.Forbidden("resourceVersionMatch",
                       "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    }
  }
  if (query.Has("sendInitialEvents")) {
    errors.Forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
  }
  return errors.ToStatus(kListOptions, "");
}

// Refuses the combinations of watch options that Kubernetes refuses.
Status CheckWatchOptions(const http::Query& query) {
  FieldErrors errors;
  const std::string& match = query.Get("resourceVersionMatch");
  const bool initial = query.Has("sendInitialEvents");
  if (initial && match != "NotOlderThan") {
    errors.Forbidden("resourceVersionMatch",
                     "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
  }
  if (!match.empty()) {
    if (!initial) {
      errors.Forbidden(
          "resourceVersionMatch",
          "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    }
    if (match != "NotOlderThan") {
      errors.NotSupported("resourceVersionMatch", match, {"NotOlderThan"});
    }
    if (!query.Get("continue").empty()) {
      errors.Forbidden("resourceVersionMatch",
                       "resourceVersionMatch is forbidden when continue is provided");
    }
  }
  return errors.ToStatus(kListOptions, "");
}

}  // namespace

bool Selection::Matches(const Json& object) const {
  if (!fields.Matches(object)) return false;
  if (labels.empty()) return true;
  api::Labels of_object;
  for (const auto& [key, value] : base::json::Map(object, {"metadata", "labels"}).items()) {
    if (value.is_string()) of_object.emplace(key, value.get_ref<const std::string&>());
  }
  return labels.Matches(of_object);
}

base::StatusOr<store::Revision> ParseRevision(const http::Query& query) {
  auto revision = ParseNumber(query, "resourceVersion");
  if (revision.ok() && *revision >= 0) return revision;
  FieldErrors errors;
  errors.Invalid("resourceVersion", query.Get("resourceVersion"),
                 "must be a decimal number that is not negative");
  return errors.ToStatus(kListOptions, "");
}

base::StatusOr<ListQuery> ParseListQuery(const ResourceRequest& request) {
  const http::Query& query = request.query;
  RETURN_IF_ERROR(CheckListOptions(query));
  ListQuery list;
  ASSIGN_OR_RETURN(list.selection, ParseSelection(request));
  ASSIGN_OR_RETURN(const int64_t limit, ParseNumber(query, "limit"));
  list.limit = static_cast<size_t>(std::max<int64_t>(limit, 0));
  ASSIGN_OR_RETURN(list.revision, ParseRevision(query));
  const std::string& match = query.Get("resourceVersionMatch");
  // As in Kubernetes, a list with a limit and a revision is a list of exactly that revision.
  list.exact = match == "Exact" || (match.empty() && list.limit > 0 && list.revision > 0);
  const std::string& token = query.Get("continue");
  if (!token.empty()) {
    if (list.revision != 0) {
      return BadRequestError("specifying resource version is not allowed when using continue");
    }
    ASSIGN_OR_RETURN(list.from, DecodeContinue(token));
  }
  return list;
}

base::StatusOr<WatchQuery> ParseWatchQuery(const ResourceRequest& request) {
  const http::Query& query = request.query;
  RETURN_IF_ERROR(CheckWatchOptions(query));
  WatchQuery watch;
  ASSIGN_OR_RETURN(watch.selection, ParseSelection(request));
  ASSIGN_OR_RETURN(watch.revision, ParseRevision(query));
  ASSIGN_OR_RETURN(const int64_t timeout, ParseNumber(query, "timeoutSeconds"));
  watch.timeout = std::chrono::seconds(std::clamp<int64_t>(timeout, 0, kLongestWatch.count()));
  watch.bookmarks = query.Bool("allowWatchBookmarks");
  // By default a watch begins with the existing objects, unless the client names a revision.
  watch.send_initial_events =
      query.Has("sendInitialEvents") ? query.Bool("sendInitialEvents") : watch.revision == 0;
  return watch;
}

}  // namespace berth::apiserver
