// Finds a class of snapshots by its name.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kube/client.h"
#include "kube/informers/informer.h"

namespace berth::controllers::snapshotcontroller {

// Asks the API for a class that the informer does not know, because a class is often made together
// with its first snapshot, and the snapshot may be seen before it. NOT_FOUND: there is none; `kind`
// is how the message names it.
template <typename Class>
base::StatusOr<std::shared_ptr<const Class>> FindClass(kube::Client& client,
                                                       const kube::Informer<Class>& classes,
                                                       const std::string& name,
                                                       std::string_view kind) {
  if (auto known = classes.Get(name); known != nullptr) return known;
  base::StatusOr<Class> asked = kube::Get<Class>(client, "", name);
  if (asked.ok()) return std::make_shared<const Class>(*std::move(asked));
  if (asked.status().code() != base::StatusCode::kNotFound) return asked.status();
  return base::Error(base::StatusCode::kNotFound, "{} \"{}\" not found", kind, name);
}

}  // namespace berth::controllers::snapshotcontroller
