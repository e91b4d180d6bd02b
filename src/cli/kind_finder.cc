#include "cli/kind_finder.h"

#include <algorithm>
#include <set>
#include <string>

#include "api/names.h"

namespace berth::cli {

using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

bool IsCalled(const api::KindInfo& info, std::string_view word) {
  const size_t dot = word.find('.');
  const std::string name = api::LowerCase(word.substr(0, dot));
  if (dot != std::string_view::npos && api::LowerCase(word.substr(dot + 1)) != info.group) {
    return false;
  }
  return name == info.plural || name == info.singular || name == api::LowerCase(info.kind) ||
         std::find(info.short_names.begin(), info.short_names.end(), name) !=
             info.short_names.end();
}

}  // namespace

Status KindFinder::LoadServedKinds() {
  if (discovered_) return base::OkStatus();
  ASSIGN_OR_RETURN(served_, kube::DiscoverKinds(client_));
  discovered_ = true;
  return base::OkStatus();
}

StatusOr<const api::KindInfo*> KindFinder::FindByWord(std::string_view word) {
  const api::KindInfo* known = api::FindKindByWord(word);
  if (known != nullptr) return known;
  RETURN_IF_ERROR(LoadServedKinds());
  std::set<std::string_view> plurals;
  for (const auto& kind : served_) {
    if (IsCalled(kind->info(), word)) return &kind->info();
    plurals.insert(kind->info().plural);
  }
  return base::Error(StatusCode::kInvalidArgument, "there is no kind '{}'; the known ones are {}",
                     word, fmt::join(plurals, ", "));
}

StatusOr<const api::KindInfo*> KindFinder::FindForObject(std::string_view api_version,
                                                         std::string_view kind) {
  const api::KindInfo* known = api::FindKind(api_version, kind);
  if (known != nullptr) return known;
  RETURN_IF_ERROR(LoadServedKinds());
  for (const auto& served : served_) {
    if (served->info().kind == kind && served->info().api_version() == api_version) {
      return &served->info();
    }
  }
  return base::Error(StatusCode::kInvalidArgument, "unknown kind '{}' in '{}'", kind, api_version);
}

}  // namespace berth::cli
