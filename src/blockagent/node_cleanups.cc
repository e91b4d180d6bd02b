#include "blockagent/node_cleanups.h"

#include <algorithm>
#include <functional>

#include "base/fault.h"
#include "base/log.h"

namespace berth::blockagent {
namespace {

using api::CleanupEntry;
using api::NodeCleanup;
using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr int kMostCleanupTries = 10;
constexpr size_t kMostEntries = 4096;  // the limit in the CustomResourceDefinition

bool IsSameEntry(const CleanupEntry& one, const CleanupEntry& other) {
  return one.volume == other.volume && one.attachment.IsSameUse(other.attachment);
}

Status ConflictError(const std::string& node) {
  return Error(StatusCode::kAborted, "write NodeCleanup {}: others wrote it {} times meanwhile",
               base::Quote(node), kMostCleanupTries);
}

}  // namespace

Status AddCleanups(kube::Client& client, const std::string& node,
                   const std::vector<CleanupEntry>& entries) {
  if (entries.empty()) return base::OkStatus();
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.cleanup.add.before">());
  for (int i = 0; i < kMostCleanupTries; ++i) {
    auto found = kube::Get<NodeCleanup>(client, "", node);
    const bool missing = found.status().code() == StatusCode::kNotFound;
    if (!found.ok() && !missing) return found.status();
    NodeCleanup cleanup = missing ? NodeCleanup() : *std::move(found);
    std::vector<CleanupEntry> after = cleanup.entries();
    const size_t before = after.size();
    for (const CleanupEntry& entry : entries) {
      const bool there = std::ranges::any_of(
          after, [&](const CleanupEntry& old) { return IsSameEntry(old, entry); });
      if (!there) after.push_back(entry);
    }
    if (after.size() == before) return base::OkStatus();
    if (after.size() > kMostEntries) {
      return Error(
          StatusCode::kResourceExhausted,
          "NodeCleanup {} has {} entries already: run the block agent of that node, which works "
          "them off, or remove them by hand",
          base::Quote(node), cleanup.entries().size());
    }
    cleanup.set_entries(after);
    Status written;
    if (missing) {
      cleanup.Set({"apiVersion"}, NodeCleanup::kInfo.api_version());
      cleanup.Set({"kind"}, std::string(NodeCleanup::kInfo.kind));
      cleanup.set_name(node);
      written = kube::Create(client, cleanup).status();
    } else {
      written = kube::Update(client, cleanup).status();
    }
    if (written.ok()) return base::FaultPoint<"blockagent.cleanup.add.after">();
    if (written.code() != StatusCode::kAlreadyExists && written.code() != StatusCode::kAborted &&
        written.code() != StatusCode::kNotFound) {
      return base::Annotate(written, fmt::format("write NodeCleanup {}", base::Quote(node)));
    }
  }
  return ConflictError(node);
}

Status RemoveCleanup(kube::Client& client, const api::NodeName& node, const CleanupEntry& entry) {
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.cleanup.remove.before">());
  for (int i = 0; i < kMostCleanupTries; ++i) {
    auto found = kube::Get<NodeCleanup>(client, "", node.text());
    if (found.status().code() == StatusCode::kNotFound) return base::OkStatus();
    RETURN_IF_ERROR(found);
    std::vector<CleanupEntry> after = found->entries();
    const size_t removed =
        std::erase_if(after, [&](const CleanupEntry& one) { return IsSameEntry(one, entry); });
    if (removed == 0) return base::OkStatus();
    Status written;
    if (after.empty()) {
      written = client.Delete(NodeCleanup::kInfo, "", node.text(),
                              {.uid = found->uid(), .resource_version = found->resource_version()});
    } else {
      found->set_entries(after);
      written = kube::Update(client, *found).status();
    }
    if (written.ok()) return base::FaultPoint<"blockagent.cleanup.remove.after">();
    if (written.code() != StatusCode::kAborted && written.code() != StatusCode::kNotFound) {
      return base::Annotate(written, fmt::format("write NodeCleanup {}", node));
    }
  }
  return ConflictError(node.text());
}

StatusOr<bool> HasCleanup(kube::Client& client, const api::NodeName& node,
                          const api::VolumeName& volume, const api::PodUid& pod) {
  const auto found = kube::Get<NodeCleanup>(client, "", node.text());
  if (found.status().code() == StatusCode::kNotFound) return false;
  RETURN_IF_ERROR_WITH(found, fmt::format("read NodeCleanup {}", node));
  return std::ranges::any_of(found->entries(), [&](const CleanupEntry& entry) {
    return entry.volume == volume.text() && entry.attachment.pod_uid == pod.text();
  });
}

StatusOr<std::vector<api::NodeName>> FindOwingNodes(kube::Client& client,
                                                    const api::VolumeName& volume, bool readers) {
  ASSIGN_OR_RETURN(const auto cleanups, client.List(NodeCleanup::kInfo, "", {}));
  std::vector<api::NodeName> nodes;
  for (const base::Json& item : cleanups.items) {
    const NodeCleanup cleanup(item);
    if (std::ranges::any_of(cleanup.entries(), [&](const CleanupEntry& entry) {
          return entry.volume == volume.text() && (readers || !entry.attachment.read_only);
        })) {
      nodes.emplace_back(cleanup.name());
    }
  }
  return nodes;
}

}  // namespace berth::blockagent
