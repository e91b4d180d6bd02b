#include "cmd/berth-oci/oci.h"

#include <limits.h>
#include <unistd.h>

#include "base/ipc/connection.h"
#include "base/ipc/crust_call.h"
#include "cmd/berth-oci/arguments.h"
#include "cmd/berth-oci/create.h"
#include "cmd/berth-oci/files.h"
#include "cmd/berth-oci/guest_commands.h"
#include "cmd/berth-oci/guest_record.h"
#include "cmd/berth-oci/runtime.h"
#include "cmd/berth-oci/runtime_log.h"

namespace berth::oci {

namespace ipc = base::ipc;
namespace crust = base::ipc::crust;

namespace {

constexpr size_t kLargestSettings = 64 * 1024;
constexpr const char* kSettings = "/etc/berth/oci.json";

std::vector<std::string> ListSettingsPaths() {
  std::vector<std::string> paths;
  char self[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", self, sizeof(self));
  if (size > 0 && static_cast<size_t>(size) < sizeof(self)) {
    paths.push_back(std::string(self, static_cast<size_t>(size)) + ".json");
  }
  paths.emplace_back(kSettings);
  return paths;
}

bool IsKnownToHandler(const Config& config, const std::string& id) {
  return crust::IsId(id) && access(crust::MarkPath(config.run_folder, id).c_str(), F_OK) == 0;
}

}  // namespace

ipc::Result<Config> ReadConfig(const std::vector<std::string>& paths) {
  Config config{.socket = crust::kOciSocket, .run_folder = crust::kRunFolder};
  for (const std::string& path : paths) {
    const auto text = ReadFile(path, kLargestSettings);
    if (text.failure().problem == ipc::Problem::kNobody) continue;
    if (!text.ok()) return text.failure();
    const auto settings = ipc::ReadJson(*text);
    if (!settings.ok()) {
      return ipc::Failure{ipc::Problem::kBroken, "'" + path + "': " + settings.failure().text};
    }
    if (const std::string* runtime = settings->FindText("runtime")) config.runtime = *runtime;
    if (const std::string* socket = settings->FindText("socket")) config.socket = *socket;
    if (const std::string* run = settings->FindText("run")) config.run_folder = *run;
    const std::string* pods = settings->FindText("pods");
    config.all_pods = pods != nullptr && *pods == "all";
    break;
  }
  return config;
}

int RunWrapper(const std::vector<std::string>& argv) {
  const Arguments arguments = ReadArguments(argv);
  const auto config = ReadConfig(ListSettingsPaths());
  if (!config.ok()) return ReportFailure(arguments, config.failure().text);
  const auto record = ReadGuestRecord(GuestRecordPath(arguments.root, arguments.id));
  if (record.ok()) {
    const auto code = RunGuestCommand(*config, arguments, *record);
    return code.ok() ? *code : ReportFailure(arguments, code.failure().text);
  }
  if (record.failure().problem != ipc::Problem::kNobody) {
    return ReportFailure(arguments, record.failure().text);
  }
  if (arguments.command == "create" || arguments.command == "run") {
    auto prepared = PrepareContainer(*config, arguments);
    if (!prepared.ok()) return ReportFailure(arguments, prepared.failure().text);
    if (prepared->guest.valid()) {
      const ipc::Failure done = FinishGuestCreate(*config, arguments, std::move(*prepared));
      return done.ok() ? 0 : ReportFailure(arguments, done.text);
    }
  }
  const auto runtime = FindRuntime(config->runtime);
  if (!runtime.ok()) return ReportFailure(arguments, runtime.failure().text);
  if (arguments.command == "delete" && IsKnownToHandler(*config, arguments.id)) {
    const auto code = RunRuntime(*runtime, argv);
    if (!code.ok()) return ReportFailure(arguments, code.failure().text);
    if (*code == 0) ReportSandboxEnd(*config, arguments.id);
    return *code;
  }
  return ReportFailure(arguments, BecomeRuntime(*runtime, argv).text);
}

}  // namespace berth::oci
