// `berth fence break --dangerous`: a person removes the users of a volume from its fence. This is
// the last resort if the fence needs a proof that nobody can give (blockagent/fence_rules.h).

#include <unistd.h>

#include <iostream>
#include <memory>

#include "base/log.h"
#include "blockagent/fence.h"
#include "cli/connect.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"
#include "kube/http/http_client.h"

namespace berth::cmd {
namespace {

using base::Error;
using base::Status;
using base::StatusCode;

struct BreakFlags {
  cli::ApiOptions api;
  std::string volume;
  std::string node;   // only this one, which the fence does not name; empty: break the fence
  std::string typed;  // the value of --yes-i-lose-data; empty: ask the user
  bool dangerous = false;
};

// Asks the user to type the volume's name, unless --yes-i-lose-data has it. FAILED_PRECONDITION: it
// is another name.
Status ConfirmVolume(const BreakFlags& flags, const std::string& question) {
  std::string typed = flags.typed;
  if (typed.empty()) {
    cli::Print(question);
    std::getline(std::cin, typed);
  }
  if (typed == flags.volume) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "the fence stands: '{}' was typed, and the volume is '{}'", typed, flags.volume);
}

std::string AskToBreak(const std::string& volume, const std::vector<api::FenceEntry>& entries) {
  std::string question = fmt::format("Volume {} is used, as far as its fence says, by:\n", volume);
  for (const api::FenceEntry& entry : entries) {
    question += fmt::format("  {}\n", blockagent::Describe(entry));
  }
  return question +
         "If one of them still writes to it, two writers will destroy its file system.\n"
         "Type the volume's name to break the fence: ";
}

Status BreakFence(const BreakFlags& flags, bool data_folder_given) {
  if (!flags.dangerous) {
    return Error(
        StatusCode::kInvalidArgument,
        "breaking a fence may destroy the volume's data: look at 'berth get volumefence {} "
        "-o yaml' for the proof that is missing, or say --dangerous",
        flags.volume);
  }
  ASSIGN_OR_RETURN(const kube::Config config, cli::LoadApiConfig(flags.api, data_folder_given));
  ASSIGN_OR_RETURN(const auto client, kube::NewHttpClient(config));
  const std::string reason = "a person broke the fence: berth fence break --dangerous";
  if (!flags.node.empty()) {
    RETURN_IF_ERROR(ConfirmVolume(flags,
                                  "What the node has not written yet is lost.\n"
                                  "Type the volume's name to take it off the node by force: "));
    RETURN_IF_ERROR(blockagent::ForceOffNode(*client, api::VolumeName(flags.volume),
                                             api::NodeName(flags.node), reason));
    cli::Print(fmt::format("node '{}' takes the volume off when it can\n", flags.node));
    return base::OkStatus();
  }
  const auto fence = kube::Get<api::VolumeFence>(*client, "", flags.volume);
  if (fence.status().code() == StatusCode::kNotFound) {
    return Error(StatusCode::kNotFound,
                 "volume '{}' has no fence: nobody uses it; if a node has not written everything "
                 "that it answered, and that is to be given up, name the node: --node NODE",
                 flags.volume);
  }
  RETURN_IF_ERROR(fence);
  RETURN_IF_ERROR(ConfirmVolume(flags, AskToBreak(flags.volume, fence->entries())));
  ASSIGN_OR_RETURN(const auto broken,
                   blockagent::BreakFence(*client, api::VolumeName(flags.volume), reason));
  for (const api::FenceEntry& entry : broken) {
    cli::Print(fmt::format("broke the fence of {}; node '{}' takes the volume off when it can\n",
                           blockagent::Describe(entry), entry.node));
  }
  return base::OkStatus();
}

}  // namespace

void AddFenceCommands(CLI::App& app, int& exit_code) {
  CLI::App* fence =
      app.add_subcommand("fence", "Fences, which say who may use a volume of the block agent");
  fence->require_subcommand(1);
  CLI::App* command = fence->add_subcommand(
      "break", "Remove all users from a volume's fence, although they may still write to it");
  auto flags = std::make_shared<BreakFlags>();
  command->add_option("volume", flags->volume, "The PersistentVolume")->required();
  command->add_flag("--dangerous", flags->dangerous, "Break the fence although data may be lost");
  command->add_option("--node", flags->node,
                      "Break nothing, but have this node, which the fence does not name, give up "
                      "what it has not written");
  command->add_option("--yes-i-lose-data", flags->typed,
                      "The volume's name once more, instead of being asked for it");
  command->add_option("--kubeconfig", flags->api.kubeconfig, "How to reach the API");
  CLI::Option* data =
      command->add_option("--data", flags->api.data_folder, "Data folder of a standalone Berth");
  command->callback([flags, data, &exit_code] {
    exit_code = cli::ReportError(BreakFence(*flags, data->count() > 0));
  });
}

}  // namespace berth::cmd
