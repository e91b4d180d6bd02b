#include "controllers/ownergc/source.h"

namespace berth::controllers::ownergc {

namespace {

class InformerSource : public Source {
 public:
  InformerSource(KindPtr kind, kube::InformerBase& informer, Listener& listener)
      : Source(std::move(kind)), informer_(informer), listener_(listener) {}

  void Start() override {
    // The informer first calls the handler with the objects that it has. The handler may outlive
    // this source, so it uses only the listener.
    informer_.AddHandler([kind = kind_, &listener = listener_](const auto& change) {
      const bool replaced = change.before != nullptr && change.after != nullptr &&
                            change.before->uid() != change.after->uid();
      if (change.after == nullptr || replaced) listener.OnGone(kind, change.before->uid());
      if (change.after != nullptr) listener.OnObject(kind, *change.after, 0);
    });
  }
  void Stop() override {}
  bool synced() const override { return informer_.synced(); }
  void Observe(const base::Json& object) override { informer_.Observe(object); }

 private:
  kube::InformerBase& informer_;
  Listener& listener_;
};

class MetadataSource : public Source, kube::Reflector::Sink {
 public:
  MetadataSource(kube::Client& client, KindPtr kind, Listener& listener)
      : Source(std::move(kind)),
        listener_(listener),
        reflector_(client, kind_->info(),
                   {.ns = {}, .label_selector = {}, .field_selector = {}, .metadata_only = true},
                   *this) {}

  void Start() override { reflector_.Start(); }
  void Stop() override { reflector_.Stop(); }
  bool synced() const override { return synced_; }
  void Observe(const base::Json&) override {}

 private:
  void OnListBegin() override { ++list_; }
  void OnListItem(base::Json item) override {
    listener_.OnObject(kind_, api::Object(std::move(item)), list_);
  }
  void OnListEnd(const std::string&) override {
    listener_.OnListed(kind_, list_);
    synced_ = true;
  }
  void OnChange(kube::WatchEvent event) override {
    using Type = kube::WatchEvent::Type;
    if (event.type == Type::kBookmark) return;
    const api::Object object(std::move(event.object));
    if (event.type == Type::kDeleted) return listener_.OnGone(kind_, object.uid());
    listener_.OnObject(kind_, object, list_);
  }

  Listener& listener_;
  uint64_t list_ = 0;  // used only by the reflector's thread
  std::atomic<bool> synced_ = false;
  kube::Reflector reflector_;  // last: its thread uses all of the above
};

}  // namespace

std::unique_ptr<Source> Source::Make(kube::Client& client, KindPtr kind,
                                     kube::InformerBase* informer, Listener& listener) {
  if (informer != nullptr) {
    return std::make_unique<InformerSource>(std::move(kind), *informer, listener);
  }
  return std::make_unique<MetadataSource>(client, std::move(kind), listener);
}

}  // namespace berth::controllers::ownergc
