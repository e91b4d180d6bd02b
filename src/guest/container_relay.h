// pid 1's side of the containers: hands the calls container.* on to the process that has them
// (guest/containers/container_server.h), which it starts at the first of them.
//
//   [no process] --first call--> [serves] --its process ends--> [ended]
//
// A process that has ended is not replaced: nobody knows the streams of its containers, so these
// are killed, and all further calls fail with UNAVAILABLE.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "guest/containers/container_server.h"
#include "guest/control.h"
#include "guest/loop.h"

namespace berth::guest {

class ContainerRelay {
 public:
  // Adds the methods to `control`. Both are borrowed and must outlive this.
  ContainerRelay(Loop& loop, Control& control);

 private:
  void HandOn(const base::ipc::Message& request, Reply reply);
  // Returns "", or the error in words.
  std::string StartServer();
  // Moves what can be moved, and watches the line for the rest.
  void Move();

  Loop& loop_;
  std::optional<ContainerClient> client_;
};

}  // namespace berth::guest
