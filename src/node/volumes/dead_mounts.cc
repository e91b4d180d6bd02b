#include "node/volumes/dead_mounts.h"

#include "base/log.h"
#include "platform/processes/process_end.h"

namespace berth::node {

using base::Quote;

base::Status DetachDeadMount(platform::Mounter& mounter, const std::string& path,
                             const std::optional<MountIdentity>& recorded) {
  if (path.empty()) return base::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, mounter.List());
  const platform::MountEntry* mount = platform::FindMount(table, path);
  if (mount == nullptr) return base::OkStatus();
  if (recorded.has_value() && IdentifyMount(table, path) != recorded) return base::OkStatus();
  if (!mounter.IsDead(*mount)) return base::OkStatus();
  RETURN_IF_ERROR_WITH(mounter.UnmountLazy(path), "detach a mount that nobody serves");
  LOG_WARNING("detached the dead mount at {} ({} from {})", Quote(path), mount->fs_type,
              Quote(mount->source));
  return base::OkStatus();
}

namespace {

std::string Describe(const platform::LostFuse::Ended& ended,
                     const std::function<std::string(const std::string&)>& pod_name) {
  const platform::FuseServer& server = ended.server;
  std::string where;
  if (!server.container.empty()) where = fmt::format("container {}", server.container);
  if (!server.pod_uid.empty()) {
    const std::string name = pod_name(server.pod_uid);
    where += fmt::format("{}pod {}", where.empty() ? "" : " of ",
                         name.empty() ? "with UID " + server.pod_uid : Quote(name));
  }
  return fmt::format("process {} {}{} {}", server.pid, Quote(server.name),
                     where.empty() ? "" : fmt::format(" ({})", where),
                     platform::DescribeEnd(ended.wait_status));
}

}  // namespace

std::string DescribeLostMount(const platform::LostFuse& lost,
                              const std::function<std::string(const std::string&)>& pod_name) {
  std::string cause;
  for (const platform::LostFuse::Ended& ended : lost.ended) {
    cause += fmt::format("{}{}", cause.empty() ? "" : ", and ", Describe(ended, pod_name));
  }
  if (cause.empty())
    cause = "nobody serves it, because its server ended before the node agent watched it";
  return fmt::format("its FUSE mount ({} from {}) is lost: {}", lost.type, Quote(lost.source),
                     cause);
}

}  // namespace berth::node
