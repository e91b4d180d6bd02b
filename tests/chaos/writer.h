// A writer that writes while everything around it breaks, and remembers the acknowledged writes.
// Each writer has objects of its own, so that it knows their state except after writes of unknown
// outcome.
#pragma once

#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "api/kind_info.h"
#include "kube/client.h"

namespace berth::chaos {

class Writer {
 public:
  // `client` is borrowed. `name` is part of its objects' names; they live in `namespaces`.
  Writer(kube::Client& client, std::string name, std::vector<std::string> namespaces,
         size_t objects, uint64_t seed);
  ~Writer() { Stop(); }
  void Stop();

  // What the writer knows about one object. To be read after Stop().
  struct Object {
    const api::KindInfo* kind = nullptr;
    std::string ns;
    std::string name;
    int64_t version = 0;       // of the last acknowledged write; 0: it does not exist
    bool unsure = false;       // the outcome of a later write is unknown
    bool may_be_gone = false;  // that write was a delete
  };
  const std::vector<Object>& objects() const { return objects_; }
  // Versions that were acknowledged, by kind.
  const std::map<const api::KindInfo*, std::vector<int64_t>>& acknowledged() const {
    return acknowledged_;
  }
  size_t unknown() const { return unknown_; }
  // The acknowledged writes that the server lost.
  const std::vector<std::string>& losses() const { return losses_; }

 private:
  void Run(const std::stop_token& stop);
  void Create(Object& object);
  void Update(Object& object);
  void Delete(Object& object);
  void LookAgain(Object& object);
  void Acknowledge(Object& object, const base::Json& answer);
  void Unknown(Object& object);
  base::Json Labels();

  kube::Client& client_;
  std::vector<Object> objects_;
  std::map<const api::KindInfo*, std::vector<int64_t>> acknowledged_;
  std::vector<std::string> losses_;
  size_t unknown_ = 0;
  int64_t turn_ = 0;
  std::mt19937_64 random_;
  std::jthread thread_;
};

}  // namespace berth::chaos
