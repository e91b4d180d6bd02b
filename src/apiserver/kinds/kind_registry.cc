#include "apiserver/kinds/kind_registry.h"

namespace berth::apiserver {

ServedKinds::ServedKinds(const std::vector<KindPtr>& custom) {
  for (const api::KindInfo* info : api::BuiltInKinds()) {
    // The pointer does not own the rules, because the rules of built-in kinds live as long as the
    // program.
    all_.emplace_back(KindPtr(), &RulesFor(*info));
  }
  all_.insert(all_.end(), custom.begin(), custom.end());
  for (const KindPtr& kind : all_) infos_.push_back(kind->info);
}

KindPtr ServedKinds::Find(std::string_view group, std::string_view version,
                          std::string_view plural) const {
  const auto it = std::find_if(all_.begin(), all_.end(), [&](const KindPtr& kind) {
    const api::KindInfo& info = *kind->info;
    return info.plural == plural && info.version == version && info.group == group;
  });
  return it != all_.end() ? *it : nullptr;
}

KindPtr ServedKinds::FindKind(std::string_view api_version, std::string_view kind) const {
  const auto it = std::find_if(all_.begin(), all_.end(), [&](const KindPtr& one) {
    return one->info->kind == kind && one->info->api_version() == api_version;
  });
  return it != all_.end() ? *it : nullptr;
}

bool ServedKinds::Contains(const KindPtr& kind) const {
  return std::find(all_.begin(), all_.end(), kind) != all_.end();
}

KindRegistry::KindRegistry() { SetCustom({}); }

std::shared_ptr<const ServedKinds> KindRegistry::Current() const {
  base::MutexLock lock(mutex_);
  return current_;
}

void KindRegistry::SetCustom(const std::vector<KindPtr>& custom) {
  auto next = std::make_shared<ServedKinds>(custom);
  base::MutexLock lock(mutex_);
  next->number_ = current_ ? current_->number() + 1 : 1;
  current_ = std::move(next);
}

}  // namespace berth::apiserver
