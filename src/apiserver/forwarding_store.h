// For tests: a store that passes each call on to another one. Tests override what has to fail.
#pragma once

#include "store/store.h"

namespace berth::apiserver {

class ForwardingStore : public store::Store {
 public:
  explicit ForwardingStore(store::Store& store) : store_(store) {}

  store::Revision current() const override { return store_.current(); }
  store::Revision compacted() const override { return store_.compacted(); }
  base::StatusOr<store::Record> Get(std::string_view key) override { return store_.Get(key); }
  base::StatusOr<store::Page> List(std::string_view prefix, std::string_view after, size_t limit,
                                   store::Revision at) override {
    return store_.List(prefix, after, limit, at);
  }
  base::StatusOr<size_t> Count(std::string_view prefix, std::string_view after,
                               store::Revision at) override {
    return store_.Count(prefix, after, at);
  }
  base::StatusOr<store::History> ReadChanges(std::string_view prefix, store::Revision from,
                                             size_t limit) override {
    return store_.ReadChanges(prefix, from, limit);
  }
  base::StatusOr<store::Revision> Apply(store::Write write) override {
    return store_.Apply(std::move(write));
  }
  void ApplyAsync(store::Write write, std::function<void(base::StatusOr<store::Revision>)> done,
                  CommitOn where) override {
    store_.ApplyAsync(std::move(write), std::move(done), where);
  }
  base::StatusOr<std::shared_ptr<void>> Watch(std::string prefix, store::Revision from,
                                              std::shared_ptr<store::Watcher> watcher) override {
    return store_.Watch(std::move(prefix), from, std::move(watcher));
  }
  base::Status Compact(store::Revision revision) override { return store_.Compact(revision); }

 protected:
  store::Store& store_;
};

}  // namespace berth::apiserver
