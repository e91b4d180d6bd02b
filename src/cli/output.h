// Helpers that the commands share: output to a terminal, and the API's text answers.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "kube/client.h"

namespace berth::cli {

// Writes to standard output and standard error, at once.
void Print(std::string_view text);
void PrintError(std::string_view text);
// The exit code of a command that ended so; a failure is printed.
int ReportError(const base::Status& status);

// GET of a path whose answer is JSON but no single object, such as a Table.
base::StatusOr<base::Json> GetJson(kube::Client& client, std::string_view path,
                                   std::string_view accept);

}  // namespace berth::cli
