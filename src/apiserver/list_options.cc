#include "apiserver/list_options.h"

#include <charconv>

namespace berth::apiserver {

using base::Status;

namespace {

Status BadRequest(std::string_view message) { return KubeError(Reason::kBadRequest, message); }

Status InvalidOption(std::string_view field, std::string_view text) {
  return KubeError(Reason::kInvalid,
                   fmt::format("ListOptions.meta.k8s.io \"\" is invalid: {}: {}", field, text),
                   {.group = "meta.k8s.io", .kind = "ListOptions"});
}

base::StatusOr<int64_t> Number(const Query& query, std::string_view key) {
  const std::string& text = query.Get(key);
  int64_t value = 0;
  if (text.empty()) return value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return BadRequest(fmt::format(
        "{}: invalid value \"{}\": must be a whole number that is not negative", key, text));
  }
  return value;
}

base::StatusOr<Selection> ParseSelection(const ResourceRequest& request) {
  Selection selection;
  auto labels = api::LabelSelector::Parse(request.query.Get("labelSelector"));
  if (!labels.ok()) return BadRequest(base::Message(labels.status()));
  auto fields = api::FieldSelector::Parse(request.info(), request.query.Get("fieldSelector"));
  if (!fields.ok()) return BadRequest(base::Message(fields.status()));
  selection.labels = *std::move(labels);
  selection.fields = *std::move(fields);
  return selection;
}

base::StatusOr<store::Revision> ParseRevision(const Query& query) {
  auto revision = Number(query, "resourceVersion");
  if (revision.ok()) return revision;
  return InvalidOption(
      "resourceVersion",
      fmt::format("Invalid value: \"{}\": must be a decimal number", query.Get("resourceVersion")));
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

base::StatusOr<ListQuery> ParseListQuery(const ResourceRequest& request) {
  const Query& query = request.query;
  ListQuery list;
  ASSIGN_OR_RETURN(list.selection, ParseSelection(request));
  ASSIGN_OR_RETURN(const int64_t limit, Number(query, "limit"));
  list.limit = static_cast<size_t>(limit);
  ASSIGN_OR_RETURN(list.revision, ParseRevision(query));
  const std::string& match = query.Get("resourceVersionMatch");
  const std::string& token = query.Get("continue");
  if (!match.empty()) {
    if (match != "Exact" && match != "NotOlderThan") {
      return InvalidOption("resourceVersionMatch",
                           fmt::format("Unsupported value: \"{}\": supported values: \"Exact\", "
                                       "\"NotOlderThan\"",
                                       match));
    }
    if (!token.empty()) {
      return InvalidOption(
          "resourceVersionMatch",
          "Forbidden: resourceVersionMatch is forbidden when continue is provided");
    }
    if (query.Get("resourceVersion").empty()) {
      return InvalidOption(
          "resourceVersionMatch",
          "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if (match == "Exact" && list.revision == 0) {
      return InvalidOption(
          "resourceVersionMatch",
          "Forbidden: resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"");
    }
    list.exact = match == "Exact";
  }
  if (query.Has("sendInitialEvents")) {
    return InvalidOption("sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list");
  }
  if (!token.empty()) {
    if (list.revision != 0) {
      return BadRequest("specifying resource version is not allowed when using continue");
    }
    ASSIGN_OR_RETURN(list.from, DecodeContinue(token));
  }
  return list;
}

base::StatusOr<WatchQuery> ParseWatchQuery(const ResourceRequest& request) {
  const Query& query = request.query;
  WatchQuery watch;
  ASSIGN_OR_RETURN(watch.selection, ParseSelection(request));
  ASSIGN_OR_RETURN(watch.revision, ParseRevision(query));
  ASSIGN_OR_RETURN(const int64_t timeout, Number(query, "timeoutSeconds"));
  watch.timeout = std::chrono::seconds(std::min<int64_t>(timeout, 24 * 3600));
  watch.bookmarks = query.Bool("allowWatchBookmarks");
  const std::string& match = query.Get("resourceVersionMatch");
  if (query.Has("sendInitialEvents")) {
    if (match != "NotOlderThan") {
      return InvalidOption("resourceVersionMatch",
                           "Forbidden: sendInitialEvents requires setting resourceVersionMatch to "
                           "NotOlderThan");
    }
    watch.send_initial_events = query.Bool("sendInitialEvents");
  } else if (!match.empty()) {
    return InvalidOption("resourceVersionMatch",
                         "Forbidden: resourceVersionMatch is forbidden for watch unless "
                         "sendInitialEvents is provided");
  }
  return watch;
}

}  // namespace berth::apiserver
