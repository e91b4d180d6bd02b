// Says which handlers of an informer get what, and in which order. Not thread-safe: the informer's
// lock guards it.
//
// A handler that is new first gets all present objects, as added. All handlers that are new at one
// moment get them together, in a round, so that each object is unpacked once for them. A round goes
// before the waiting changes. Each object has the number of the last round that gave it away, and
// its later changes reach the round's handlers as those of all others do:
//
//   handlers by number   0 ............ new_begin_ ............ new_end_ ............ next_number_
//   they get             each change    objects of this round,  nothing: they wait
//                                       and the changes of      for the next round
//                                       those they have
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kube/informers/informer.h"

namespace berth::kube {

class HandlerQueue {
 public:
  using ObjectPtr = InformerBase::ObjectPtr;
  using Change = InformerBase::Change;
  using Handler = InformerBase::Handler;

  struct Delivery {
    std::vector<std::shared_ptr<Handler>> handlers;
    Change change;
    bool sync = false;  // no change: all of the first list was delivered
  };

  // The objects that are present.
  class Objects {
   public:
    virtual ~Objects() = default;
    virtual std::vector<std::string> ListKeys() = 0;
    // Returns the object and marks it as given away in `round`. Returns null if it is gone, or has
    // the mark already.
    virtual ObjectPtr TakeForRound(const std::string& key, uint32_t round) = 0;
  };

  // Returns the handler's number, for Remove.
  size_t Add(Handler handler);
  void Remove(const std::vector<size_t>& numbers);

  // The number of the present round, which an object that is added now gets at once: its first
  // change reaches the round's handlers.
  uint32_t round() const { return round_; }

  // Adds a change of an object that was added in the round of this number.
  void AddChange(Change change, uint32_t round);
  // Adds the sync mark: every object of the first list was added before it.
  void AddSync();

  // Takes what is delivered next. Returns false if nothing is.
  bool TakeDelivery(Objects& objects, Delivery& delivery);

 private:
  struct Waiting {
    size_t end = 0;  // handlers with smaller numbers get it
    Change change = {};
    bool sync = false;
  };

  bool TakePresent(Objects& objects, Delivery& delivery);
  std::vector<std::shared_ptr<Handler>> HandlersBetween(size_t begin, size_t end) const;

  std::map<size_t, std::shared_ptr<Handler>> handlers_;  // by number
  size_t next_number_ = 0;
  size_t new_begin_ = 0;
  size_t new_end_ = 0;
  uint32_t round_ = 0;
  std::vector<std::string> round_keys_;  // the objects that the round has not given away yet
  std::deque<Waiting> waiting_;
};

}  // namespace berth::kube
