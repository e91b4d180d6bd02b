// How objects are shown to a client: whole, as a Table (kubectl get), or by their metadata alone.
//
// Whole objects are never parsed. Immutable and thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "apiserver/http_message.h"
#include "apiserver/kind_rules.h"
#include "base/clock.h"
#include "store/store.h"

namespace berth::apiserver {

class Renderer {
 public:
  enum class Form { kObject, kTable, kPartial };

  // By the Accept header and the query's includeObject; 406 if nothing accepted is on offer.
  static base::StatusOr<Renderer> For(KindPtr kind, const Request& request, const Query& query,
                                      const base::Clock& clock);

  Form form() const { return form_; }

  // A GET of one object.
  std::string One(const store::Record& record) const;

  // A list is ListHead, items joined by ',', ListTail.
  std::string ListHead() const;
  void AppendItem(std::string& out, const store::Record& record) const;
  // `remaining` objects follow with `continue_token`; 0: unknown or none.
  std::string ListTail(store::Revision revision, std::string_view continue_token,
                       int64_t remaining) const;

  // The object of a watch event; a table's first event has the columns.
  std::string EventObject(const store::Record& record, bool first) const;
  std::string BookmarkObject(store::Revision revision, bool initial_events_end) const;
  // Renderers with the same key render events (but for the first) alike.
  std::string event_key() const;

 private:
  enum class Include { kMetadata, kObject, kNone };
  Renderer(KindPtr kind, const base::Clock& clock)
      : kind_(std::move(kind)), info_(kind_->info), clock_(&clock) {}
  std::string Columns() const;
  std::string Row(const store::Record& record) const;
  std::string Partial(const store::Record& record) const;

  KindPtr kind_;
  const api::KindInfo* info_;  // of kind_
  const base::Clock* clock_;
  Form form_ = Form::kObject;
  std::string meta_version_ = "v1";  // of meta.k8s.io, as the client asked
  Include include_ = Include::kMetadata;
};

}  // namespace berth::apiserver
