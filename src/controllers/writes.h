// How controllers write. A patch carries the version from which it was computed, and its result is
// in the informer before the next read. AfterApi says what a refused write means for a queue.
//
// A refused write is never an error of the object: after a conflict the write is computed anew at
// once, a slow or absent API is waited for, and an object that is gone needs nothing more.
#pragma once

#include <string_view>

#include "base/workers/keyed_workers.h"
#include "kube/client.h"
#include "kube/informers/informers.h"

namespace berth::controllers {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

// What becomes of a key after `status` of an API call:
//   OK, NOT_FOUND                    done (an object that vanished tells its informer)
//   ABORTED, ALREADY_EXISTS          again as soon as the newer state is here, 50 ms at the latest
//   UNAVAILABLE, DEADLINE_EXCEEDED   again in a second, doubling to 16, so that no key waits for
//                                    minutes once the API is back
//   anything else                    again after the backoff
base::KeyedWorkers::Outcome AfterApi(const Status& status);

// {"metadata": {"finalizers": [...]}} of `object` with `add` added and `remove` removed ("" for
// neither).
Json FinalizersPatch(const api::Object& object, std::string_view add, std::string_view remove);

// Whether the API removes `object`, as a write returned it, because it has a deletionTimestamp and
// no finalizer.
bool IsGone(const api::Object& object);

// Creates the object. If the name is taken, reads the object that has it, because an earlier run
// may have created it, and its answer was lost or the informer has not seen the object yet. The
// caller checks whose object it is, and then shows it to the informer.
template <typename T>
StatusOr<T> CreateOrRead(kube::Client& client, const T& wanted) {
  StatusOr<T> created = kube::Create(client, wanted);
  if (created.status().code() != StatusCode::kAlreadyExists) return created;
  return kube::Get<T>(client, wanted.ns(), wanted.name());
}

// Whether the merge patch would change `object`, which is as the caller's informer has it. The
// controllers ask this before a write, so that an object that is as it should be costs no request.
bool WouldChange(const api::Object& object, const Json& patch);

// A merge patch of the object with this uid, whatever its version is, for fields that only the
// caller's controller writes. If another object has the name now, the answer is ABORTED, or
// INVALID_ARGUMENT from kube-apiserver.
template <typename T>
StatusOr<T> Patch(kube::Client& client, kube::Informer<T>& informer, const T& object, Json patch,
                  std::string_view subresource = "") {
  if (!object.uid().empty()) base::json::Set(patch, {"metadata", "uid"}, object.uid());
  ASSIGN_OR_RETURN(T patched, kube::MergePatch(client, object, patch, subresource));
  // The copy also takes an object that this write ended, so that the copy says so until the watch
  // removes it.
  informer.Observe(patched.json());
  return patched;
}

// As Patch, but refused with ABORTED unless the object is still as `object` was read.
template <typename T>
StatusOr<T> PatchAt(kube::Client& client, kube::Informer<T>& informer, const T& object, Json patch,
                    std::string_view subresource = "") {
  base::json::Set(patch, {"metadata", "resourceVersion"}, object.resource_version());
  return Patch(client, informer, object, std::move(patch), subresource);
}

// As PatchAt, for kinds on which the upstream program's role grants `update` but not `patch`:
// `object`, changed by the merge patch, is written whole, so it must be as a watch, a get or a
// write returned it. Informers keep all of an object but managedFields, which the server leaves as
// they are when an update does not have them.
template <typename T>
StatusOr<T> UpdateAt(kube::Client& client, kube::Informer<T>& informer, const T& object,
                     const Json& patch) {
  T changed = object;
  changed.mutable_json().merge_patch(patch);
  ASSIGN_OR_RETURN(T updated, kube::Update(client, changed));
  informer.Observe(updated.json());
  return updated;
}

}  // namespace berth::controllers
