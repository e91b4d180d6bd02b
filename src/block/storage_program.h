// Calls a program that reaches a storage by its library (berth-rbd, berth-iscsi): `NAME call` reads
// one JSON object from standard input, does one thing, and answers with one JSON object on standard
// output. A program of its own keeps the storage's library, with its threads and its hangs, out of
// the agent and the operator; the deadline kills it.
//
// A request may hold a secret, so it goes by standard input alone. An answer or an error that
// repeats the secret is cleared of it. Thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "platform/processes/exec.h"

namespace berth::block {

// The operator gives this name in a request in place of a node's. No Node has a capital letter in
// its name.
inline constexpr char kOperatorName[] = "Operator";

class StorageProgram {
 public:
  // `name` is the name of the program, which is taken from beside the running program, or else from
  // PATH. Borrows `exec`.
  StorageProgram(platform::Exec& exec, std::string_view name);

  // Makes a call, and gives its result. A failure has the code and the message that the program
  // answered with. NOT_FOUND with the program's name: it is not installed. DEADLINE_EXCEEDED,
  // UNAVAILABLE: the outcome is unknown. INTERNAL: the program ended without an answer. `secret`
  // appears in no message. What the program says about its progress goes to the ProgressScope of
  // the calling thread (progress.h).
  base::StatusOr<base::Json> Call(const base::Json& request, const std::string& secret,
                                  std::chrono::milliseconds timeout) const;

 private:
  platform::Exec& exec_;
  const std::string name_;
  const std::string path_;
};

}  // namespace berth::block
