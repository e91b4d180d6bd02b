// A client of the Kubernetes API. The server is a kube-apiserver or Berth's embedded API server.
//
// Errors: the server's Status becomes a base::Status whose message is the server's, with the code
//   NOT_FOUND           404
//   ALREADY_EXISTS      409 with reason AlreadyExists
//   ABORTED             409 Conflict: read again and retry
//   OUT_OF_RANGE        410: the resourceVersion or continue token is too old, list again
//   INVALID_ARGUMENT    400, 415, 422
//   PERMISSION_DENIED   403
//   UNAUTHENTICATED     401
//   UNIMPLEMENTED       405, 406
//   RESOURCE_EXHAUSTED  413, or an answer that is too large
//   INTERNAL            500: for a write the outcome is unknown
//   UNAVAILABLE         429, 501 and above, or no connection: for a write the outcome is unknown
//   DEADLINE_EXCEEDED   no answer in time: for a write the outcome is unknown
//   UNKNOWN             any other code
// Thread-safe; calls block the caller.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "api/kind_info.h"
#include "api/object.h"
#include "base/status.h"

namespace berth::kube {

using base::Json;
using base::Status;
using base::StatusOr;

enum class PatchType { kJson, kMerge, kStrategicMerge };

struct ListOptions {
  std::string label_selector;  // empty: all objects
  std::string field_selector;  // empty: all objects
  // Of a watch: the version after which it begins. Of a list: as the API's parameter of this name.
  std::string resource_version;
  int64_t limit = 0;           // the objects of a page; 0: the server's limit, or none
  std::string continue_token;  // of the page before; empty: the first page
  // Watch only: the server ends the watch after this time; 0: the server chooses the time.
  std::chrono::seconds timeout{0};
  // Objects come with apiVersion, kind and metadata alone.
  bool metadata_only = false;
  // List only. A client that can decode a page object by object passes each one to this function,
  // on the calling thread, and ListResult::items is empty, so that the objects of a page are not in
  // memory together. Other clients ignore it. If a later page has to be read again, objects are
  // passed on twice. If that happens to the first page, the result is UNAVAILABLE, and the caller
  // begins a new list, because the page would show a later state than the objects passed on.
  std::function<void(Json item)> on_item = {};
};

struct ListResult {
  std::vector<Json> items;  // each with apiVersion and kind
  std::string resource_version;
  std::string continue_token;  // empty: this is the last page
};

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark };
  Type type;
  // With apiVersion and kind. kDeleted: the last state. kBookmark: only metadata.resourceVersion
  // counts.
  Json object;
};

struct DeleteOptions {
  std::optional<int64_t> grace_period_seconds;
  std::string uid;               // precondition; empty: none
  std::string resource_version;  // precondition; empty: none
  // What happens to the objects that this one owns: "Background", "Foreground" or "Orphan"; empty:
  // the API's default for the kind.
  std::string propagation;
};

class Client {
 public:
  virtual ~Client() = default;

  // `ns` is empty for cluster-scoped kinds, and in List and Watch for all namespaces.
  virtual StatusOr<Json> Get(const api::KindInfo& kind, std::string_view ns,
                             std::string_view name) = 0;
  virtual StatusOr<ListResult> List(const api::KindInfo& kind, std::string_view ns,
                                    const ListOptions& options) = 0;
  // The most objects that List with `on_item` asks for in one page, whatever `limit` is.
  virtual int64_t MostInPage(const api::KindInfo& kind) const {
    (void)kind;
    return INT64_MAX;
  }
  virtual StatusOr<Json> Create(const api::KindInfo& kind, std::string_view ns,
                                const Json& object) = 0;
  // PUT; `subresource` is "", "status" or, of a namespace, "finalize". Name and namespace are the
  // object's.
  virtual StatusOr<Json> Update(const api::KindInfo& kind, const Json& object,
                                std::string_view subresource) = 0;
  virtual StatusOr<Json> Patch(const api::KindInfo& kind, std::string_view ns,
                               std::string_view name, PatchType type, const Json& patch,
                               std::string_view subresource) = 0;
  virtual Status Delete(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                        const DeleteOptions& options) = 0;
  // Deletes all objects of the kind in the namespace; the preconditions of `options` do not apply.
  virtual Status DeleteCollection(const api::KindInfo& kind, std::string_view ns,
                                  const DeleteOptions& options) = 0;
  // POST to a subresource, such as pods/NAME/binding or serviceaccounts/NAME/token.
  virtual StatusOr<Json> CreateSubresource(const api::KindInfo& kind, std::string_view ns,
                                           std::string_view name, std::string_view subresource,
                                           const Json& body) = 0;

  // Watches from `options.resource_version`, and calls `on_event` on the calling thread for each
  // event. Returns OK when the server ends the watch or `on_event` returns false, CANCELLED soon
  // after `stop` is requested, and an error if the watch breaks. OUT_OF_RANGE: list the objects
  // again.
  virtual Status Watch(const api::KindInfo& kind, std::string_view ns, const ListOptions& options,
                       std::stop_token stop,
                       const std::function<bool(WatchEvent event)>& on_event) = 0;

  // GETs text that is not an object: logs, or tables that the server renders. `target` is the path
  // with its query, "/api/v1/namespaces/NS/pods/NAME/log?follow=true" (values percent-encoded), and
  // `accept` is the Accept header. Calls `on_chunk` on the calling thread with each part. Returns
  // OK when the server ends the stream or `on_chunk` returns false, CANCELLED soon after `stop` is
  // requested, and an error if the stream breaks.
  virtual Status GetStream(std::string_view target, std::string_view accept, std::stop_token stop,
                           const std::function<bool(std::string_view chunk)>& on_chunk) = 0;
};

// The calls above for typed kinds: Get<api::Pod>(client, "default", "web").
template <typename T>
StatusOr<T> Get(Client& client, std::string_view ns, std::string_view name) {
  ASSIGN_OR_RETURN(Json object, client.Get(T::kInfo, ns, name));
  return T(std::move(object));
}

template <typename T>
StatusOr<T> Create(Client& client, const T& object) {
  ASSIGN_OR_RETURN(Json created, client.Create(T::kInfo, object.ns(), object.json()));
  return T(std::move(created));
}

template <typename T>
StatusOr<T> Update(Client& client, const T& object, std::string_view subresource = "") {
  ASSIGN_OR_RETURN(Json updated, client.Update(T::kInfo, object.json(), subresource));
  return T(std::move(updated));
}

// Applies the merge patch `patch` to the object with the name and namespace of `object`.
template <typename T>
StatusOr<T> MergePatch(Client& client, const T& object, const Json& patch,
                       std::string_view subresource = "") {
  ASSIGN_OR_RETURN(Json patched, client.Patch(T::kInfo, object.ns(), object.name(),
                                              PatchType::kMerge, patch, subresource));
  return T(std::move(patched));
}

// Deletes exactly this object, because its uid is the precondition. OK if it is gone already.
// ABORTED: another object has its name now.
template <typename T>
Status Delete(Client& client, const T& object) {
  const Status deleted = client.Delete(T::kInfo, object.ns(), object.name(), {.uid = object.uid()});
  return deleted.code() == base::StatusCode::kNotFound ? base::OkStatus() : deleted;
}

}  // namespace berth::kube
