// `berth-iscsi call` answers one question about a LUN (iscsi/calls.h), or fences a node from it.
// `berth-iscsi serve` shows a LUN as a FUSE file (blockexport/export_server.h), and keeps other
// nodes from writing to it as long as it runs and after.
//
// The request is one JSON object on standard input: that of a call, or the settings of `serve`:
// those of ReadStoreOptions (iscsi/iscsi_store.h) with `socket` and `file`. The result of a call is
// one JSON object on standard output. After a failure the exit code is 1, and the output is
// {"error": {"code": "NOT_FOUND", "message": "..."}}. Secrets are in the request alone, so they are
// in no argument and no log.

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "base/files/whole_file.h"
#include "base/json_input.h"
#include "base/log.h"
#include "base/pause.h"
#include "blockexport/serve_settings.h"
#include "iscsi/calls.h"
#include "iscsi/iscsi_store.h"

namespace berth {
namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr size_t kMostInput = 1'000'000;
// How long `serve` may take to log in and to take the reservation.
constexpr std::chrono::seconds kOpenTime{20};
// A call that hangs against all rules is ended from outside of it.
constexpr std::chrono::milliseconds kHardLimit = iscsi::kCallTime + std::chrono::milliseconds(1500);

int Report(const StatusOr<Json>& result) {
  const Json output = result.ok() ? *result : base::json::FailureReply(result.status());
  const int error = base::WriteAll(STDOUT_FILENO, base::json::Dump(output) + "\n");
  return result.ok() && error == 0 ? 0 : 1;
}

int RunCallInTime(const Json& request) {
  // Ends the process if the call hangs. It is joined when the call has been reported.
  const std::jthread limit([](const std::stop_token& stop) {
    if (!base::SleepFor(stop, kHardLimit)) return;
    _exit(Report(base::Error(StatusCode::kDeadlineExceeded, "the call did not end in time")));
  });
  return Report(iscsi::RunCall(request, std::chrono::steady_clock::now() + iscsi::kCallTime));
}

int Call() {
  const StatusOr<Json> request = base::json::ReadObject(STDIN_FILENO, kMostInput, "the request");
  if (!request.ok()) return Report(request);
  // Without the destructors of main's end, because a look-up of a name may still run (portal.h).
  _exit(RunCallInTime(*request));
}

StatusOr<int> Serve() {
  ASSIGN_OR_RETURN(const Json settings, blockexport::ReadSettings(STDIN_FILENO));
  ASSIGN_OR_RETURN(const blockexport::ExportOptions options,
                   blockexport::ParseExportOptions(settings));
  ASSIGN_OR_RETURN(iscsi::StoreOptions store_options, iscsi::ReadStoreOptions(settings));
  Status kept;  // the reservation, at the end
  store_options.channel.on_release_failure = [&kept](const Status& failure) { kept = failure; };
  ASSIGN_OR_RETURN(
      std::unique_ptr<blockexport::BlockStore> store,
      iscsi::IscsiStore::Open(store_options, std::chrono::steady_clock::now() + kOpenTime));
  const int exit_code = blockexport::RunExport(std::move(store), options);
  if (exit_code == 0 && !kept.ok()) return base::Annotate(kept, "give the reservation back");
  return exit_code;
}

}  // namespace
}  // namespace berth

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  berth::base::InitLogging("berth-iscsi", 0);
  if (argc == 2 && std::string_view(argv[1]) == "call") return berth::Call();
  if (argc == 2 && std::string_view(argv[1]) == "serve") {
    const auto exit_code = berth::Serve();
    if (exit_code.ok()) return *exit_code;
    berth::blockexport::ReportFailure(exit_code.status());
    return 1;
  }
  fputs("usage: berth-iscsi call | serve, with a request on standard input\n", stderr);
  return 2;
}
