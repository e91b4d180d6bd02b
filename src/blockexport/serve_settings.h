// Reads the settings of a process that serves a volume: one JSON object on its standard input,
// because secrets in it must be neither in the arguments nor on a disk.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "blockexport/export_server.h"

namespace berth::blockexport {

// Reads `fd` until its end. INVALID_ARGUMENT: it is not one JSON object, or has more than
// kMostSettings bytes (export_call.h). The message has no part of the text.
base::StatusOr<base::Json> ReadSettings(int fd);

// INVALID_ARGUMENT: the socket or the file is missing, or is not an absolute path.
base::StatusOr<ExportOptions> ParseExportOptions(const base::Json& settings);

}  // namespace berth::blockexport
