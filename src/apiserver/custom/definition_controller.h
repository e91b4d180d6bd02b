// Serves what CustomResourceDefinitions define: accepts their names, makes their kinds known, and
// deletes their objects before they go.
//
//   created ─▶ NamesAccepted ─▶ kinds in the registry ─▶ Established
//   deleted ─▶ no new objects ─▶ objects deleted ─▶ finalizer removed ─▶ kinds leave the registry
//
// It looks at all definitions whenever one changes (or an object of one that is being deleted
// does), and writes only their status and finalizer, with the revision that it read: a definition
// that changed meanwhile wakes it again. All of its state is in the store, so that a restart goes
// on where it was.
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
  // `on_change` is called after kinds have come, gone or changed. Everything is borrowed.
  DefinitionController(ApiContext& context, std::function<void()> on_change);
  ~DefinitionController();  // as Stop

  // Serves what is established already, then follows changes on a thread of its own.
  base::Status Start();
  void Stop();

 private:
  class Wakeup;
  struct Definition {
    Json object;
    store::Revision revision = 0;
    std::string key;
  };
  // The kinds of one definition, and what they were made from.
  struct Served {
    std::string made_from;
    std::vector<KindPtr> kinds;
  };

  void Loop();
  // False if something is to be tried again.
  bool Pass();
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
  // Of the thread.
  std::map<std::string, Served> served_;                           // by name
  std::map<std::string, std::shared_ptr<void>> instance_watches_;  // by prefix
  std::jthread thread_;
};

}  // namespace berth::apiserver
