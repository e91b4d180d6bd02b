// The commands of an OCI runtime for containers that run in a guest (base/ipc/container_call.h).
#pragma once

#include "base/ipc/result.h"
#include "cmd/berth-oci/arguments.h"
#include "cmd/berth-oci/create.h"
#include "cmd/berth-oci/guest_record.h"
#include "cmd/berth-oci/oci.h"

namespace berth::oci {

// The second half of create: leaves the container's stand-in, and writes its pid.
base::ipc::Failure FinishGuestCreate(const Config& config, const Arguments& arguments,
                                     Prepared prepared);

// Handles any other command about the container of this record. Returns its exit code.
base::ipc::Result<int> RunGuestCommand(const Config& config, const Arguments& arguments,
                                       const GuestRecord& record);

// Reports to the handler that the sandbox was deleted. A failure is only printed, because the
// handler finishes its work for the sandbox later without this report.
void ReportSandboxEnd(const Config& config, const std::string& id);

}  // namespace berth::oci
