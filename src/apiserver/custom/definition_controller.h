// Serves what CustomResourceDefinitions define: accepts their names, makes their kinds known, and
// deletes their objects before they go.
//
//   created ─▶ NamesAccepted ─▶ kinds in the registry ─▶ Established
//   deleted ─▶ no new objects ─▶ objects deleted ─▶ finalizer removed ─▶ kinds leave the registry
//
// The controller checks all definitions whenever one changes, or an object of one that is being
// deleted. It writes only their status and finalizer, at the revision that it read; if a definition
// changed meanwhile, the change wakes the controller again. A restart continues where it stopped,
// because all state is in the store.
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
  // `on_change` is called after kinds were added, removed or changed. Borrows everything.
  DefinitionController(ApiContext& context, std::function<void()> on_change);
  ~DefinitionController();  // as Stop

  // Serves the definitions that are already established, then follows changes on its own thread.
  base::Status Start();
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

  void Loop();
  // Returns false if something must be tried again.
  bool SyncAll();
  base::StatusOr<std::vector<Definition>> ReadAll();
  bool AcceptNames(Definition& definition, const std::vector<Definition>& all);
  void ServeKinds(const std::vector<Definition>& all);
  bool Establish(Definition& definition);
  bool Delete(Definition& definition);
  base::Status DeleteObjects(const Definition& definition);
  bool Write(Definition& definition, const Json& changed);

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
