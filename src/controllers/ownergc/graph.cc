#include "controllers/ownergc/graph.h"

#include <algorithm>

#include "api/kind_info.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::ownergc {

namespace {

const api::OwnerReference* FindReference(const std::vector<api::OwnerReference>& references,
                                         const std::string& uid) {
  for (const api::OwnerReference& reference : references) {
    if (reference.uid == uid) return &reference;
  }
  return nullptr;
}

}  // namespace

Uids Graph::Put(const KindPtr& kind, const api::Object& object, uint64_t list) {
  const std::string uid = object.uid();
  std::vector<api::OwnerReference> owners = object.owner_references();
  const bool deleting = object.deleting();
  const bool foreground = object.has_finalizer(kForegroundDeletion);
  const bool orphan = object.has_finalizer(kOrphan);
  if (owners.empty() && !(deleting && (foreground || orphan)) && !nodes_.contains(uid)) return {};

  Uids to_check;
  GraphNode& node = nodes_[uid];  // stays in place when others come and go
  const bool waited = node.waits_for_dependents();
  const bool released = node.present && node.deleting && node.orphan;
  node.present = true;
  node.kind = kind;
  node.ns = object.ns();
  node.name = object.name();
  node.deleting = deleting;
  node.foreground = foreground;
  node.orphan = orphan;
  if (list != 0) node.list = list;
  SetOwners(uid, std::move(owners), to_check);
  if (deleting && orphan) {
    if (!released) to_check.push_back(uid);
  } else if (node.waits_for_dependents()) {
    if (!waited) {
      to_check.push_back(uid);
      to_check.insert(to_check.end(), node.dependents.begin(), node.dependents.end());
    }
  } else if (!deleting && !AllOwnersStay(node)) {
    to_check.push_back(uid);
  }
  DropIfUnused(uid);
  return to_check;
}

void Graph::SetOwners(const std::string& uid, std::vector<api::OwnerReference> owners,
                      Uids& to_check) {
  GraphNode& node = nodes_[uid];
  for (const api::OwnerReference& owner : owners) nodes_[owner.uid].dependents.insert(uid);
  const std::vector<api::OwnerReference> before = std::exchange(node.owners, std::move(owners));
  for (const api::OwnerReference& old : before) {
    const auto owner = nodes_.find(old.uid);
    if (owner == nodes_.end()) continue;
    const api::OwnerReference* now = FindReference(node.owners, old.uid);
    const bool holds = now != nullptr && now->block_owner_deletion;
    if (old.block_owner_deletion && !holds && owner->second.waits_for_dependents()) {
      to_check.push_back(old.uid);
    }
    if (now != nullptr) continue;
    owner->second.dependents.erase(uid);
    if (old.uid != uid) DropIfUnused(old.uid);
  }
}

void Graph::Clear(const std::string& uid, Uids& to_check) {
  GraphNode& node = nodes_[uid];
  node.present = false;
  node.deleting = node.foreground = node.orphan = false;
  node.kind = nullptr;
  SetOwners(uid, {}, to_check);
}

Uids Graph::Remove(const std::string& uid) {
  Uids to_check;
  const auto it = nodes_.find(uid);
  if (it == nodes_.end()) return to_check;
  to_check.assign(it->second.dependents.begin(), it->second.dependents.end());
  Clear(uid, to_check);
  DropIfUnused(uid);
  return to_check;
}

Uids Graph::RemoveUnlisted(const api::KindInfo& kind, uint64_t list) {
  Uids gone;
  for (const auto& [uid, node] : nodes_) {
    if (node.present && &node.kind->info() == &kind && node.list != list) gone.push_back(uid);
  }
  Uids to_check;
  for (const std::string& uid : gone) {
    const Uids more = Remove(uid);
    to_check.insert(to_check.end(), more.begin(), more.end());
  }
  return to_check;
}

void Graph::Forget(const api::KindInfo& kind) {
  Uids all;
  for (const auto& [uid, node] : nodes_) {
    if (node.present && &node.kind->info() == &kind) all.push_back(uid);
  }
  Uids ignored;  // nothing is checked, because it is not known which objects are gone
  for (const std::string& uid : all) {
    Clear(uid, ignored);
    DropIfUnused(uid);
  }
}

void Graph::DropIfUnused(const std::string& uid) {
  const auto it = nodes_.find(uid);
  if (it == nodes_.end() || !it->second.dependents.empty()) return;
  const GraphNode& node = it->second;
  const bool awaits_us = node.deleting && (node.foreground || node.orphan);
  if (node.present && (!node.owners.empty() || awaits_us)) return;
  nodes_.erase(it);
}

const GraphNode* Graph::Find(const std::string& uid) const {
  const auto it = nodes_.find(uid);
  return it == nodes_.end() ? nullptr : &it->second;
}

bool Graph::NamesOwner(const api::OwnerReference& reference, std::string_view ns,
                       const GraphNode& owner) {
  const api::KindInfo& kind = owner.kind->info();
  return reference.kind == kind.kind && api::GroupOf(reference.api_version) == kind.group &&
         reference.name == owner.name && (owner.ns.empty() || owner.ns == ns);
}

bool Graph::AllOwnersStay(const GraphNode& node) const {
  return std::all_of(
      node.owners.begin(), node.owners.end(), [&](const api::OwnerReference& reference) {
        const GraphNode* owner = Find(reference.uid);
        return owner != nullptr && owner->present && !owner->waits_for_dependents() &&
               NamesOwner(reference, node.ns, *owner);
      });
}

Uids Graph::BlockingDependents(const std::string& uid) const {
  Uids blocking;
  const GraphNode* owner = Find(uid);
  if (owner == nullptr) return blocking;
  for (const std::string& dependent : owner->dependents) {
    const GraphNode* node = Find(dependent);
    const api::OwnerReference* reference =
        node == nullptr ? nullptr : FindReference(node->owners, uid);
    if (reference != nullptr && reference->block_owner_deletion) blocking.push_back(dependent);
  }
  return blocking;
}

}  // namespace berth::controllers::ownergc
