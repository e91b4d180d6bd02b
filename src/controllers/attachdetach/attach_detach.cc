#include "controllers/attachdetach/attach_detach.h"

#include "controllers/claims.h"
#include "controllers/indexes.h"

namespace berth::controllers::attachdetach {

using base::KeyedWorkers;

namespace {

KeyedWorkers::Options QueueOptions(const char* name, int workers) {
  return {.name = name,
          .workers = workers,
          .retry_start = std::chrono::milliseconds(500),
          .retry_max = std::chrono::seconds(60)};
}

// Whether all fields that this controller reads of a node are the same in both.
bool SameForUs(const api::Node& a, const api::Node& b) {
  return a.ready() == b.ready() && a.volumes_in_use() == b.volumes_in_use() &&
         a.volumes_attached() == b.volumes_attached() && a.taints() == b.taints() &&
         a.annotations() == b.annotations();
}

bool SameForUs(const api::Pod& a, const api::Pod& b) {
  return a.node_name() == b.node_name() && a.terminated() == b.terminated() &&
         a.deleting() == b.deleting();
}

bool SameForUs(const api::PersistentVolumeClaim& a, const api::PersistentVolumeClaim& b) {
  return a.uid() == b.uid() && a.volume_name() == b.volume_name() && IsBound(a) == IsBound(b);
}

bool SameForUs(const api::PersistentVolume& a, const api::PersistentVolume& b) {
  return a.uid() == b.uid() &&
         base::json::Map(a.json(), {"spec"}) == base::json::Map(b.json(), {"spec"});
}

// Whether a change alters no field that this controller reads.
template <typename Change>
bool IsIrrelevant(const Change& change) {
  return change.before != nullptr && change.after != nullptr &&
         SameForUs(*change.before, *change.after);
}

}  // namespace

AttachDetach::AttachDetach(Context context, Options options)
    : context_(context),
      options_(options),
      pods_(context.informers.Of<api::Pod>()),
      nodes_(context.informers.Of<api::Node>()),
      claims_(context.informers.Of<api::PersistentVolumeClaim>()),
      volumes_(context.informers.Of<Volume>()),
      attachments_(context.informers.Of<Attachment>()),
      drivers_(context.informers.Of<api::CsiDriver>()),
      host_mounts_(options.host_mounts ? &context.informers.Of<api::HostMount>() : nullptr),
      volume_workers_(QueueOptions("attachdetach", 4),
                      [this](const std::string& key) { return SyncVolume(key); }),
      node_workers_(QueueOptions("node-attached", 2),
                    [this](const std::string& key) { return SyncNode(key); }) {
  AddPodIndexes(pods_);
  AddAttachmentIndexes(attachments_);
  if (host_mounts_ != nullptr) AddHostMountIndexes(*host_mounts_);
  AddHandlers();
}

AttachDetach::~AttachDetach() { Stop(); }

void AttachDetach::AddClaim(const std::string& claim_key) {
  const auto claim = claims_.Get(claim_key);
  if (claim != nullptr && !claim->volume_name().empty()) {
    volume_workers_.Add(claim->volume_name());
  }
}

void AttachDetach::AddNode(const std::string& node) {
  node_workers_.Add(node);
  for (const auto& attachment : attachments_.ByIndex(kAttachmentsByNode, node)) {
    if (!attachment->pv_name().empty()) volume_workers_.Add(attachment->pv_name());
  }
  for (const auto& pod : pods_.ByIndex(kPodsByNode, node)) {
    for (const std::string& claim : ClaimNames(*pod)) AddClaim(api::ObjectKey(pod->ns(), claim));
  }
}

void AttachDetach::AddHandlers() {
  pods_.AddHandler([this](const auto& change) {
    const api::Pod& pod = change.latest();
    if (pod.node_name().empty() || IsIrrelevant(change)) return;
    for (const std::string& claim : ClaimNames(pod)) AddClaim(api::ObjectKey(pod.ns(), claim));
  });
  if (host_mounts_ != nullptr) {
    host_mounts_->AddHandler([this](const auto& change) {
      AddClaim(api::ObjectKey(change.latest().ns(), change.latest().claim_name()));
    });
  }
  claims_.AddHandler([this](const auto& change) {
    if (IsIrrelevant(change)) return;
    if (const std::string volume = change.latest().volume_name(); !volume.empty()) {
      volume_workers_.Add(volume);
    }
  });
  volumes_.AddHandler([this](const auto& change) {
    if (api::AttachableOf(change.latest()).has_value() && !IsIrrelevant(change)) {
      volume_workers_.Add(change.key);
    }
  });
  attachments_.AddHandler([this](const auto& change) {
    const Attachment& attachment = change.latest();
    if (change.after == nullptr) Forget(change.key);
    node_workers_.Add(attachment.node_name());
    if (!attachment.pv_name().empty()) volume_workers_.Add(attachment.pv_name());
  });
  nodes_.AddHandler([this](const auto& change) {
    if (!IsIrrelevant(change)) AddNode(change.key);
  });
  drivers_.AddHandler([this](const auto& change) {
    volumes_.ForEach([&](const Volume& volume) {
      if (volume.has_csi() && volume.csi().driver() == change.key) {
        volume_workers_.Add(volume.name());
      }
    });
  });
}

void AttachDetach::PluginChanged(const std::string& plugin) {
  volumes_.ForEach([&](const Volume& volume) {
    if (api::FlexDriverOf(volume) == plugin) {
      volume_workers_.AddNow(volume.name());
    }
  });
}

void AttachDetach::Start() {
  volume_workers_.Start();
  node_workers_.Start();
}

void AttachDetach::Stop() {
  volume_workers_.Stop();
  node_workers_.Stop();
}

}  // namespace berth::controllers::attachdetach
