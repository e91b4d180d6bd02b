#include "crust/kata/kata_sandboxes.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/ipc/crust_call.h"
#include "base/json.h"
#include "base/log.h"
#include "crust/bundle_check.h"
#include "crust/containers/bundle_config.h"
#include "crust/requests.h"
#include "platform/files/durable_file.h"

namespace berth::crust::kata {
namespace {

namespace ipc = base::ipc;
using base::Error;
using base::Json;
using base::Quote;
using base::StatusCode;
using base::StatusOr;

bool IsMissing(const std::string& path) {
  struct stat st;
  return lstat(path.c_str(), &st) != 0 && errno == ENOENT;
}

}  // namespace

StatusOr<KataSandbox> KataSandboxes::FindSandbox(const rpc::SandboxId& id) const {
  const base::Status unknown =
      Error(StatusCode::kNotFound, "there is no sandbox {} of Kata", Quote(id.text()));
  const bool go = IsFolder(GoFolder(id));
  if (!go && !IsFolder(RustFolder(id))) return unknown;
  const std::string path = fmt::format("{}/{}/config.json", bundles_, id.text());
  const StatusOr<std::string> text = platform::ReadFile(path, ipc::crust::kLargestConfig);
  if (text.status().code() == StatusCode::kNotFound) return unknown;
  const StatusOr<Json> config = text.ok() ? ReadConfig(*text) : StatusOr<Json>(text.status());
  if (!config.ok()) {
    return Error(StatusCode::kInternal, "read {}: {}", Quote(path), base::Message(config.status()));
  }
  const auto annotation = [&](std::string_view name) {
    return base::json::String(*config, {"annotations", name});
  };
  if (annotation(ipc::crust::kKindAnnotation) != "sandbox") return unknown;
  KataSandbox found{.pod = api::PodUid(annotation(ipc::crust::kPodUidAnnotation)),
                    .runtime = go ? KataRuntime::kGo : KataRuntime::kRust};
  if (!CheckPodUid(found.pod).ok()) {
    return Error(StatusCode::kInternal, "{} does not say which pod the sandbox is of", Quote(path));
  }
  return found;
}

bool KataSandboxes::IsGone(const rpc::SandboxId& id) const {
  // A folder that is missing together with the one around it proves nothing.
  return IsFolder(bundles_) && IsMissing(bundles_ + "/" + id.text());
}

bool KataSandboxes::IsOfRust(const rpc::SandboxId& id) const {
  return !IsFolder(GoFolder(id)) && IsFolder(RustFolder(id));
}

std::string KataSandboxes::ShimSocket(const rpc::SandboxId& id) const {
  return GoFolder(id) + "/shim-monitor.sock";
}

}  // namespace berth::crust::kata
