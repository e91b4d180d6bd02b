#include "guest/pod.h"

#include <errno.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/ipc/guest_call.h"
#include "guest/child_call.h"
#include "guest/control.h"
#include "guest/files.h"
#include "guest/grafts.h"
#include "guest/kernel.h"

namespace berth::guest {

using base::ipc::Message;
namespace calls = base::ipc::guest;

namespace {

constexpr size_t kLongestName = 256;

// Whether a part of a path is one of its folder.
bool IsPart(std::string_view part) { return !part.empty() && part != "." && part != ".."; }

// "": written; else the error in words.
std::string WriteSysctl(const std::string& sysctl) {
  const size_t equals = sysctl.find('=');
  const std::string path = SysctlPath(std::string_view(sysctl).substr(0, equals));
  if (path.empty() || equals == std::string::npos) return "'" + sysctl + "' sets no sysctl";
  return WriteFile(path, std::string_view(sysctl).substr(equals + 1));
}

Message Begin(const Message& request) {
  if (const std::string name = ReadText(request, calls::kHostname);
      !name.empty() && sethostname(name.data(), name.size()) != 0) {
    return FailureReply("set the guest's host name", errno);
  }
  if (const base::ipc::Strings* sysctls = request.FindList(calls::kSysctls); sysctls != nullptr) {
    for (const std::string& sysctl : *sysctls) {
      if (std::string error = WriteSysctl(sysctl); !error.empty()) {
        return ErrorReply("INVALID_ARGUMENT",
                          "set a sysctl of the pod in the guest: " + std::move(error));
      }
    }
  }
  const std::string share = ReadText(request, calls::kShare);
  if (share.empty() || IsMounted(calls::kShareFolder)) return Message();
  constexpr const char* kType = "virtiofs";
  if (std::string error = LoadModules(calls::ModuleList(kType)); !error.empty()) {
    return ErrorReply("FAILED_PRECONDITION", std::move(error));
  }
  mkdir(calls::kShareFolder, 0700);
  KernelLog log(KernelLog::From::kNow);
  if (mount(share.c_str(), calls::kShareFolder, kType, 0, nullptr) != 0) {
    const int error = errno;
    return FailureReply("mount the host's folder '" + share + "' in the guest", error,
                        log.ReadProblems(kType));
  }
  return Message();
}

}  // namespace

std::string SysctlPath(std::string_view name) {
  if (name.size() > kLongestName) return "";
  const size_t first = name.find_first_of("./");
  const bool dots = first != std::string_view::npos && name[first] == '.';
  std::string path;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || c == '.' || c == '/';
    if (!plain) return "";
    if (dots && c == '.') {
      path += '/';
    } else {
      path += dots && c == '/' ? '.' : c;
    }
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (!IsPart(std::string_view(path).substr(begin, end - begin))) return "";
    begin = end + 1;
  }
  return "/proc/sys/" + path;
}

Pod::Pod(Loop& loop, Control& control) : loop_(loop) {
  control.AddMethod(calls::kBegin, [this](const Message& request, Reply reply) {
    if (child_ != 0) {
      return reply(
          ErrorReply("UNAVAILABLE", "an earlier call for the pod still runs in the guest"));
    }
    child_ = CallInChild(
        loop_, [&] { return Begin(request); },
        [this, reply = std::move(reply)](const Message& message) {
          child_ = 0;
          reply(message);
        });
  });
}

}  // namespace berth::guest
