#include "node/volumes/volume_in_use.h"

#include "base/fault.h"
#include "base/ids.h"

namespace berth::node {
namespace {

using base::Status;
using Outcome = base::KeyedWorkers::Outcome;

constexpr std::string_view kKey = "volumesInUse";
// The delay of a write that is not urgent. It makes one write of the changes of a pod's start,
// after the start.
constexpr auto kCalmDelay = std::chrono::milliseconds(250);

}  // namespace

VolumesInUse::VolumesInUse(kube::Client& client, kube::Informers& informers, std::string node_name,
                           VolumePartsOwner& owner)
    : client_(client),
      nodes_(informers.Of<api::Node>()),
      node_name_(std::move(node_name)),
      owner_(owner),
      worker_({.name = "volumes-in-use",
               .workers = 1,
               .retry_start = std::chrono::milliseconds(200),
               .retry_max = std::chrono::milliseconds(10'000)},
              [this](const std::string&) { return WriteReport(); }) {
  gate_.Open(this);
  nodes_.AddHandler(gate_.Wrap([](VolumesInUse& self, const auto& change) {
    if (change.key != self.node_name_ || change.after == nullptr) return;
    if (change.before != nullptr && change.before->uid() == change.after->uid()) return;
    self.NodeRegistered();
  }));
}

VolumesInUse::~VolumesInUse() {
  gate_.Close();
  Stop();
}

// A Node object that was created again lists no volumes, so the list is written again.
void VolumesInUse::NodeRegistered() {
  {
    base::MutexLock lock(mutex_);
    reported_.reset();
    lost_ = true;
  }
  worker_.AddNow(std::string(kKey));
}

void VolumesInUse::KeepDamaged(std::string digest) {
  base::MutexLock lock(mutex_);
  damaged_digests_.insert(std::move(digest));
}

void VolumesInUse::ForgetDamaged(const std::string& name) {
  base::MutexLock lock(mutex_);
  if (!damaged_digests_.empty()) damaged_digests_.erase(base::Sha256Hex(name));
}

void VolumesInUse::Start() {
  worker_.Start();
  worker_.AddNow(std::string(kKey));
}

void VolumesInUse::Stop() { worker_.Stop(); }

void VolumesInUse::ScheduleReport(bool urgent) {
  if (urgent) {
    worker_.AddNow(std::string(kKey));
  } else {
    worker_.AddAfter(std::string(kKey), kCalmDelay);
  }
}

bool VolumesInUse::IsReported(const std::string& name) const {
  base::MutexLock lock(mutex_);
  return reported_.has_value() && reported_->contains(name);
}

base::StatusOr<VolumesInUse::Names> VolumesInUse::AddDamaged(Names names) {
  Names damaged;
  {
    base::MutexLock lock(mutex_);
    damaged = damaged_digests_;
  }
  if (damaged.empty()) return names;
  // This reads from the API and not from the informer, because an informer without the Node would
  // drop the damaged names from the list.
  ASSIGN_OR_RETURN(const api::Node node, kube::Get<api::Node>(client_, "", node_name_));
  for (const std::string& name : node.volumes_in_use()) {
    if (damaged.contains(base::Sha256Hex(name))) names.insert(name);
  }
  return names;
}

Outcome VolumesInUse::WriteReport() {
  const base::StatusOr<Names> desired = AddDamaged(owner_.DevicesInUse());
  if (!desired.ok()) return Outcome::Retry(desired.status());
  const Names& names = *desired;
  {
    base::MutexLock lock(mutex_);
    if (!std::exchange(lost_, false) && reported_ == names) return Outcome::Done();
    // Until the API has answered, only the old names that stay in the list are known to be listed.
    if (reported_.has_value()) {
      std::erase_if(*reported_, [&](const std::string& name) { return !names.contains(name); });
    }
  }
  if (const Status fault = base::FaultPoint<"node.volumes_in_use.write">(); !fault.ok()) {
    return Outcome::Retry(fault);
  }
  const auto written = client_.Patch(
      api::kinds::kNode, "", node_name_, kube::PatchType::kMerge,
      {{"status", {{"volumesInUse", std::vector(names.begin(), names.end())}}}}, "status");
  if (!written.ok()) {
    {
      base::MutexLock lock(mutex_);
      reported_.reset();
    }
    return Outcome::Retry(base::Annotate(
        written.status(), fmt::format("write status.volumesInUse of node '{}'", node_name_)));
  }
  nodes_.Observe(*written);
  {
    base::MutexLock lock(mutex_);
    reported_ = names;
  }
  owner_.RetryUnreported();
  return Outcome::Done();
}

}  // namespace berth::node
