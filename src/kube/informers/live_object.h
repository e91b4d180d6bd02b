// Reads an object from the API for a decision that the informer's copy is too old to make.
#pragma once

#include <string_view>

#include "kube/client.h"
#include "kube/informers/informer.h"

namespace berth::kube {

// Asks the API for the object, and shows the answer to the informer of its kind, so that the next
// look at the copy finds nothing older. NOT_FOUND: the object is gone; the copy may keep it until
// the watch removes it. Other errors come from the API, and the copy stays as it is.
//
// An object of another uid that has the name now is an answer like any other: it takes the place of
// the old one in the copy, and the caller compares the uid if its decision depends on it.
//
// The handlers of the informer may run on this thread, so the rules of Informer::Observe for locks
// apply.
template <typename T>
StatusOr<T> ReadLiveObject(Client& client, Informer<T>& informer, std::string_view ns,
                           std::string_view name) {
  ASSIGN_OR_RETURN(T live, Get<T>(client, ns, name));
  informer.Observe(live.json());
  return live;
}

}  // namespace berth::kube
