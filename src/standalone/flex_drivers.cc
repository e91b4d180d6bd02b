#include "standalone/flex_drivers.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/log.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "kube/node_reference.h"
#include "platform/files/durable_file.h"
#include "volume/flex/flex_attach_plugin.h"
#include "volume/flex/flex_plugin.h"
#include "volume/flex/flex_prober.h"

namespace berth::standalone {

using base::Status;
using base::StatusCode;
using volume::FlexProber;

namespace {

// Returns the warning about a folder that has no driver. Empty if the driver's files may still be
// copied, because that is not a fault.
std::string FormatLeftOut(const std::string& folder, const Status& why) {
  const bool incomplete =
      why.code() == StatusCode::kNotFound || why.code() == StatusCode::kUnavailable;
  if (why.ok() || incomplete) return "";
  return folder.empty()
             ? std::string(base::Message(why))
             : fmt::format("'{}' is no Flexvolume driver: {}", folder, base::Message(why));
}

}  // namespace

std::unique_ptr<volume::PluginProber> NewNodeFlexProber(const std::string& folder,
                                                        volume::Host& host) {
  const auto warn = [&host](std::string_view reason, const std::string& message) {
    if (message.empty()) return;
    LOG_WARNING("{}", message);
    host.events().Record(kube::NodeReference(host.node_name()), base::EventType::kWarning, reason,
                         message);
  };
  return std::make_unique<FlexProber>(FlexProber::Options{
      .drivers = folder,
      .store = {.folder = host.paths().FlexDrivers(), .users = host.paths().root()},
      .make =
          [&host](std::shared_ptr<const volume::FlexDriver> driver,
                  std::shared_ptr<volume::DriverVersions> versions) {
            return std::make_shared<volume::FlexPlugin>(host, std::move(driver),
                                                        std::move(versions));
          },
      .on_left_out =
          [warn](const std::string& name, const Status& why) {
            warn("FlexvolumeDriverLeftOut", FormatLeftOut(name, why));
          },
      .on_trouble =
          [warn](const Status& why) {
            warn("FlexvolumeDriversReadAnew", std::string(base::Message(why)));
          }});
}

void MoveOldDriverCopies(const std::string& data_folder, const std::string& store) {
  constexpr char kOld[] = "api/flexvolume-drivers";
  const std::string old = fmt::format("{}/{}", data_folder, kOld);
  if (access(old.c_str(), F_OK) != 0) return;
  const Status made = platform::MakeFolders(std::string(base::FolderOf(store)), 0750);
  // The kubelet folder is a mount onto itself while pods are there, and nothing is renamed from one
  // mount to another. A copy of the data folder's mount does not have it.
  base::UniqueFd data(
      open_tree(AT_FDCWD, data_folder.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!data.valid()) data.Reset(open(data_folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string below = store.substr(data_folder.size() + 1);
  if (!made.ok() || renameat(data.get(), kOld, data.get(), below.c_str()) != 0) {
    LOG_WARNING("'{}' could not be moved to '{}': {}", old, store,
                made.ok() ? strerror(errno) : base::ToString(made));
  }
}

FlexAttachers::FlexAttachers(const std::string& folder, const std::string& store,
                             const volume::Paths& paths, ExecOf exec_of)
    : paths_(paths), exec_of_(std::move(exec_of)) {
  std::vector<std::unique_ptr<volume::PluginProber>> probers;
  probers.push_back(std::make_unique<FlexProber>(FlexProber::Options{
      .drivers = folder,
      .store = {.folder = store, .users = ""},
      .make =
          [this](const std::shared_ptr<const volume::FlexDriver>& driver,
                 std::shared_ptr<volume::DriverVersions> versions) {
            return std::make_shared<volume::FlexAttachPlugin>(exec_of_(driver->name()), paths_,
                                                              driver, std::move(versions));
          },
      .on_left_out =
          [](const std::string& name, const Status& why) {
            const std::string message = FormatLeftOut(name, why);
            if (!message.empty()) LOG_WARNING("attaching: {}", message);
          },
      .on_trouble = [](const Status& why) { LOG_WARNING("attaching: {}", base::Message(why)); }}));
  registry_ = std::make_unique<volume::PluginRegistry>(
      volume::PluginList(), std::move(probers),
      volume::PluginRegistry::Options{
          .on_state =
              [this](const std::string& driver, const Status& state) {
                // The state is only logged here, because the node agent's prober records the faults
                // of the same drivers as events of its node.
                if (!state.ok() && state.code() != StatusCode::kNotFound) {
                  LOG_WARNING("attaching: {}", base::Message(state));
                }
                if (on_change_) on_change_(driver);
              },
          .on_probe_failed =
              [](const Status& why) {
                LOG_WARNING("attaching: look for Flexvolume drivers: {}", base::ToString(why));
              }});
}

void FlexAttachers::Stop() {
  for (const auto& plugin : registry_->ListPlugins()) plugin->CancelCalls();
  registry_->Stop();
}

}  // namespace berth::standalone
