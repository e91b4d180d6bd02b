// Reads the settings of a process that serves a volume: one JSON object on its standard input,
// because secrets in it must be neither in the arguments nor on a disk.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "blockexport/export_server.h"

namespace berth::blockexport {

// Marks the calling thread, and all that it starts later, as ones that storage waits for
// (PR_SET_IO_FLUSHER): memory that they take is never reclaimed by writing to their own volume,
// because that write would wait for them. Ignores SIGPIPE, because a storage that closes its
// connection must not end the process. Call it before a library of the storage starts threads. A
// refusal is logged.
void PrepareProcess();

// Reads `fd` until its end. First calls PrepareProcess, and hides this process's memory
// (platform/limits.h), because the settings may have secrets. INVALID_ARGUMENT: it is not one JSON
// object, or has more than kMostSettings bytes (export_call.h). The message has no part of the
// text.
base::StatusOr<base::Json> ReadSettings(int fd);

// INVALID_ARGUMENT: the socket or the file is missing, or is not an absolute path.
base::StatusOr<ExportOptions> ParseExportOptions(const base::Json& settings);

}  // namespace berth::blockexport
