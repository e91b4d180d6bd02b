// The guest's side of the control port (base/ipc/guest_call.h): reads requests, and hands each to
// the method that it names.
//
// A method replies at once or later, and so many calls run at the same time. A reply that nobody
// can receive because the handler is not connected is dropped: a handler repeats its calls.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/ipc/guest_call.h"
#include "base/ipc/line_reader.h"
#include "base/ipc/message.h"
#include "base/unique_fd.h"
#include "guest/loop.h"

namespace berth::guest {

// Sends the reply of one request. Call it once; it may be kept and called later.
using Reply = std::function<void(base::ipc::Message)>;
using Method = std::function<void(const base::ipc::Message& request, Reply reply)>;

// A reply that is an error.
base::ipc::Message ErrorReply(std::string_view code, std::string text);
// The same for a system call that failed with `error`, with what the kernel's log says of it.
base::ipc::Message FailureReply(std::string_view what, int error,
                                std::string_view kernel_says = "");
// The field of a request; "": there is none.
std::string ReadText(const base::ipc::Message& request, std::string_view field);

class Control {
 public:
  // `port` is an open port. `loop` is borrowed and must outlive this.
  Control(Loop& loop, base::UniqueFd port);

  void AddMethod(std::string_view name, Method method) {
    methods_[std::string(name)] = std::move(method);
  }
  // Adds a method for all names with this prefix, of which no other is the prefix.
  void AddMethods(std::string_view prefix, Method method) {
    groups_[std::string(prefix)] = std::move(method);
  }

 private:
  void HandleEvents(short events);
  void HandleLine(const std::string& line);
  const Method* FindMethod(const std::string& name) const;
  void Send(const std::string& id, base::ipc::Message reply);
  void WriteOut();
  void WatchPort();

  Loop& loop_;
  const base::UniqueFd port_;
  base::ipc::LineReader reader_{base::ipc::guest::kLargestLine};
  std::map<std::string, Method> methods_;
  std::map<std::string, Method> groups_;  // by prefix
  std::string out_;                       // what the port has not taken yet
};

}  // namespace berth::guest
