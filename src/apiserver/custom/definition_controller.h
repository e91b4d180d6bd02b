// Serves the kinds of CustomResourceDefinitions: accepts the names of a definition, adds its kinds
// to the registry, and deletes its objects before the definition itself is removed.
//
//   created ─▶ NamesAccepted ─▶ kinds in the registry ─▶ Established
//   deleted ─▶ no new objects ─▶ objects deleted ─▶ finalizer removed ─▶ kinds leave the registry
//
// The controller checks all definitions whenever a definition changes, or an object of a definition
// that is being deleted. It writes only their status and finalizer, at the revision that it read;
// if a definition changed meanwhile, the change wakes the controller again. After a restart the
// controller continues where it stopped, because all state is in the store.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apiserver/api_context.h"
#include "base/mutex.h"

namespace berth::apiserver {

class DefinitionController {
 public:
  // `on_change` is called after kinds were added, removed or changed, on the thread of Start() or
  // on the controller's own. Borrows `context`.
  DefinitionController(ApiContext& context, std::function<void()> on_change);
  ~DefinitionController();  // calls Stop

  // Serves the definitions whose names are already accepted, and starts the thread that follows
  // changes. Errors come from the store.
  base::Status Start();
  // Ends the thread and waits for it.
  void Stop();

 private:
  class Wakeup;
  struct Definition {
    Json object;
    store::Revision revision = 0;
    std::string key;
  };
  // The kinds of one definition, and the data from which they were made.
  struct Served {
    std::string made_from;
    std::vector<KindPtr> kinds;
  };

  void RunLoop();
  // The functions with a bool return false if a step failed and must be tried again.
  bool SyncAll();
  bool WatchAgain();
  base::StatusOr<std::vector<Definition>> ReadDefinitions();
  bool AcceptNames(Definition& definition, const std::vector<Definition>& all);
  void ServeKinds(const std::vector<Definition>& all);
  bool MarkEstablished(Definition& definition);
  bool DeleteDefinition(Definition& definition);
  base::Status DeleteObjects(const Definition& definition);
  bool WriteDefinition(Definition& definition, const Json& changed);

  ApiContext& context_;
  const std::function<void()> on_change_;
  const std::shared_ptr<Wakeup> wakeup_;
  std::shared_ptr<void> definitions_watch_;
  // Used only by the thread.
  std::map<std::string, Served> served_;                           // by name
  std::map<std::string, std::shared_ptr<void>> instance_watches_;  // by prefix
  std::jthread thread_;
};

}  // namespace berth::apiserver
