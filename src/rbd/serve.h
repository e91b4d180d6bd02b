// `berth-rbd serve`: serves one image as a FUSE file until it is told to quit.
#pragma once

#include "base/json.h"

namespace berth::rbd {

//   {"cluster": {...}, "node": NODE, "image": NAME, "readOnly": false, "shared": false,
//    "socket": PATH, "file": PATH}
//
// Takes the image's lock, then mounts the FUSE file and listens on the socket. Returns the exit
// code of the process; 1 after a failure, which it reports on standard output before
// (export_server.h). The file appears, or the failure is reported, within 20 s; a cluster that is
// away gives a failure within 10 s.
int RunServe(const base::Json& settings);

}  // namespace berth::rbd
