#include "cli/objects/logs.h"

#include "cli/output.h"
#include "http/url.h"

namespace berth::cli {

Status PrintLogs(kube::Client& client, const ApiOptions& api, const LogOptions& options,
                 std::stop_token stop) {
  std::string name = options.pod;
  for (const std::string_view prefix : {"pod/", "pods/"}) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  std::string query;
  if (!options.container.empty()) query += "&container=" + http::PercentEncode(options.container);
  if (options.follow) query += "&follow=true";
  if (options.previous) query += "&previous=true";
  if (options.timestamps) query += "&timestamps=true";
  if (options.tail.has_value()) query += fmt::format("&tailLines={}", *options.tail);
  const std::string url =
      fmt::format("{}/{}/log{}{}", api::kinds::kPod.url(api.ns), http::PercentEncode(name),
                  query.empty() ? "" : "?", query.empty() ? "" : query.substr(1));
  const Status ended = client.GetStream(url, "*/*", stop, [](std::string_view chunk) {
    Print(chunk);
    return true;
  });
  // Ctrl-C is not an error, because a person ends `--follow` with it.
  return stop.stop_requested() ? base::OkStatus() : ended;
}

}  // namespace berth::cli
