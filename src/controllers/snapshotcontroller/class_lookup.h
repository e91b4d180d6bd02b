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

// Whether an object of snapshots or groups has to be looked at because the class `name` appeared,
// changed or went: its error says then that the class is missing, or no longer does.
template <typename Object>
bool DependsOnClass(const Object& object, const std::string& name, bool gone) {
  const bool uses = object.class_name() == name;
  return gone ? uses : !object.ready() || (uses && !object.error().empty());
}

}  // namespace berth::controllers::snapshotcontroller
