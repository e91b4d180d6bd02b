// HostMount: Berth's own kind.

#include "apiserver/kinds/checked.h"
#include "apiserver/kinds/kind_rules.h"

namespace berth::apiserver {

namespace {

// Whether `path` is absolute and below "/", without an empty, "." or ".." part. A mount by
// descriptor needs such a path.
bool IsCleanPath(std::string_view path) {
  if (path.size() < 2 || !path.starts_with('/') || path.ends_with('/')) return false;
  path.remove_prefix(1);
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

void ValidateHostMount(const Json& json, FieldErrors& errors) {
  const Checked spec = Checked(json, errors)["spec"];
  spec["nodeName"].Needed();
  spec["claimName"].Needed();
  if (spec["path"].Needed() && !IsCleanPath(spec["path"].text())) {
    spec["path"].Invalid(
        "must be an absolute path below '/', without '.', '..', '//' and a trailing '/'");
  }
}

void ValidateHostMountUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  Checked(json, old, errors)["spec"].Immutable();
}

}  // namespace

void AddBerthRules(std::vector<KindRules>& rules) {
  KindRules mount(api::kinds::kHostMount);
  mount.counts_generation = true;
  mount.update_needs_version = true;
  mount.delete_returns_object = true;
  mount.initial_status = {{"phase", "Pending"}};
  mount.validate = ValidateHostMount;
  mount.validate_update = ValidateHostMountUpdate;
  rules.push_back(mount);
}

}  // namespace berth::apiserver
