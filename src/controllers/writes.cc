#include "controllers/writes.h"

namespace berth::controllers {

using base::KeyedWorkers;

KeyedWorkers::Outcome AfterApi(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
    case StatusCode::kNotFound:
      return KeyedWorkers::Outcome::Done();
    case StatusCode::kAborted:
    case StatusCode::kAlreadyExists:
      return KeyedWorkers::Outcome::After(std::chrono::milliseconds(50));
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
      return {.status = status, .delay = std::chrono::seconds(1)};
    default:
      return KeyedWorkers::Outcome::Retry(status);
  }
}

Json FinalizersPatch(const api::Object& object, std::string_view add, std::string_view remove) {
  api::Object changed(object.json());
  if (!add.empty()) changed.add_finalizer(add);
  if (!remove.empty()) changed.remove_finalizer(remove);
  Json finalizers = Json::array();
  for (const std::string& finalizer : changed.finalizers()) finalizers.push_back(finalizer);
  return {{"metadata", {{"finalizers", std::move(finalizers)}}}};
}

bool IsGone(const api::Object& object) { return object.deleting() && object.finalizers().empty(); }

bool WouldChange(const api::Object& object, const Json& patch) {
  Json changed = object.json();
  changed.merge_patch(patch);
  return changed != object.json();
}

}  // namespace berth::controllers
