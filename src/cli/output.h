// Helpers that the commands share: output to a terminal, and the API's text answers.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "kube/client.h"

namespace berth::cli {

// Print writes to standard output, and PrintError to standard error; the text is not held in a
// buffer.
void Print(std::string_view text);
void PrintError(std::string_view text);
// Returns the exit code of a command that ended with `status`, and prints the error of a failure.
int ReportError(const base::Status& status);

// Gets a path whose answer is JSON but not one object, such as a Table. The answer may have 64 MiB.
// `accept` is the Accept header.
base::StatusOr<base::Json> GetJson(kube::Client& client, std::string_view path,
                                   std::string_view accept);

}  // namespace berth::cli
