// `berth token create|list|delete`: tokens for people and tools that have no client certificate for
// a standalone Berth (apiserver/access/static_tokens.h). The commands change the file with the
// tokens, and a running server reads it again at once.

#include <filesystem>
#include <memory>

#include "api/time.h"
#include "apiserver/access/authorization.h"
#include "apiserver/access/static_tokens.h"
#include "base/clock.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/data_command.h"
#include "platform/files/private_folder.h"
#include "standalone/data_folder.h"

namespace berth::cmd {
namespace {

using base::Status;

constexpr int64_t kDay = 86400;

struct Arguments {
  std::string data_folder = standalone::kDefaultDataFolder;
  std::string name;  // of the user, or the token's id
  std::string role;
  std::vector<std::string> groups;
  int64_t seconds = 30 * kDay;

  std::string file() const { return standalone::TokenPath(data_folder); }
};

Status CreateToken(const Arguments& arguments) {
  const bool clean = std::none_of(arguments.name.begin(), arguments.name.end(),
                                  [](unsigned char c) { return c <= ' ' || c == 0x7f; });
  if (arguments.name.empty() || !clean) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "a user's name has no spaces or control characters, and is not empty");
  }
  const base::WallTime now = base::SystemClock().Now();
  apiserver::StaticToken token{.user = arguments.name, .groups = arguments.groups, .created = now};
  if (arguments.role == "administrator") {
    token.groups.emplace_back(apiserver::kAdministrators);
  } else if (arguments.role == "node") {
    token.user = fmt::format("{}{}", apiserver::kNodePrefix, arguments.name);
    token.groups.emplace_back(apiserver::kNodes);
  } else if (arguments.role == "block-agent") {
    token.user = fmt::format("{}{}", apiserver::kBlockAgentPrefix, arguments.name);
    token.groups.emplace_back(apiserver::kBlockAgents);
  }
  if (arguments.seconds > 0) token.expires = now + std::chrono::seconds(arguments.seconds);
  RETURN_IF_ERROR(
      platform::MakePrivateFolder(std::filesystem::path(arguments.file()).parent_path().string()));
  ASSIGN_OR_RETURN(const std::string text,
                   apiserver::AddStaticToken(arguments.file(), std::move(token)));
  cli::Print(text + "\n");
  return base::OkStatus();
}

Status ListTokens(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto tokens, apiserver::ReadStaticTokens(arguments.file()));
  base::Json table = {{"columnDefinitions", base::Json::array()}, {"rows", base::Json::array()}};
  for (const char* column : {"ID", "User", "Groups", "Created", "Expires"}) {
    table["columnDefinitions"].push_back({{"name", column}, {"priority", 0}});
  }
  const base::WallTime now = base::SystemClock().Now();
  for (const apiserver::StaticToken& token : tokens) {
    const std::string expires = !token.expires          ? "never"
                                : *token.expires <= now ? "expired"
                                                        : api::FormatTime(*token.expires);
    table["rows"].push_back(
        {{"cells",
          {token.id, token.user,
           token.groups.empty() ? "<none>" : fmt::format("{}", fmt::join(token.groups, ",")),
           api::FormatTime(token.created), expires}}});
  }
  cli::Print(cli::TablePrinter(false, false, "").RenderTable(table));
  return base::OkStatus();
}

Status DeleteToken(const Arguments& arguments) {
  return apiserver::RemoveStaticToken(arguments.file(), arguments.name);
}

}  // namespace

void AddTokenCommands(CLI::App& app, int& exit_code) {
  CLI::App* group =
      app.add_subcommand("token", "Tokens for people and tools that have no client certificate");
  group->require_subcommand(1);
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* create =
      AddDataCommand(*group, exit_code, arguments, "create",
                     "Make a token and print it; it cannot be shown again", CreateToken);
  create
      ->add_option("user", arguments->name,
                   "Name of the user; with --role node or block-agent, of the node")
      ->required();
  create
      ->add_option("--role", arguments->role,
                   "administrator, node or block-agent; without it: no rights")
      ->check(CLI::IsMember({"administrator", "node", "block-agent"}));
  create->add_option("--group", arguments->groups, "A group of the user");
  create
      ->add_option("--expires-in", arguments->seconds,
                   "How long it is good for: 90s, 12h, 30d (the default); 0: for ever")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, int64_t>{{"s", 1}, {"m", 60}, {"h", 3600}, {"d", kDay}}));
  AddDataCommand(*group, exit_code, arguments, "list",
                 "List tokens with their users; the secret tokens are not shown", ListTokens);
  AddDataCommand(*group, exit_code, arguments, "delete",
                 "Delete a token; it is refused from then on", DeleteToken)
      ->add_option("id", arguments->name, "Its id, as 'list' shows it")
      ->required();
}

}  // namespace berth::cmd
