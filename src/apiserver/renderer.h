// Renders objects for a client: whole, as a Table (kubectl get) or only their metadata, in the
// format that the client accepts.
//
// Whole objects are sent as JSON without parsing, unless the client's form differs from the stored
// form (stored_form.h). Immutable and thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "apiserver/api_context.h"
#include "apiserver/formats/reply_format.h"
#include "base/clock.h"
#include "store/store.h"

namespace berth::apiserver {

class Renderer {
 public:
  enum class Form { kObject, kTable, kPartial };

  // Chooses form and format by the Accept header and the query's includeObject. 406 if the client
  // accepts none of them, 400 for an unknown includeObject. Borrows `clock`.
  static base::StatusOr<Renderer> ForRequest(const ResourceRequest& request,
                                             const base::Clock& clock);

  Form form() const { return form_; }
  Format format() const { return format_; }
  std::string content_type() const { return std::string(MediaType(format_)); }
  std::string watch_content_type() const;

  // Renders the answer to a GET of one object.
  std::string RenderOne(const store::Record& record) const;

  // A list is a head, items and a tail. A protobuf list has the size of all items in its head, so
  // that the items must be measured first (needs_size), and RenderSizedListHead makes its head.
  struct ListEnd {
    store::Revision revision = 0;
    std::string_view continue_token;
    int64_t remaining = 0;  // objects that follow with the token; 0: unknown, or none
  };
  bool needs_size() const { return format_ == Format::kProtobuf; }
  std::string RenderListHead() const;
  std::string RenderSizedListHead(size_t items_bytes, const ListEnd& end) const;
  void AppendItem(std::string& out, const store::Record& record, bool first) const;
  std::string RenderListTail(const ListEnd& end, bool empty) const;

  // Render watch events, each as one HTTP chunk. The first event of a table carries the columns.
  std::string RenderEvent(std::string_view type, const store::Record& record, bool first) const;
  std::string RenderBookmark(store::Revision revision, bool initial_events_end) const;
  std::string RenderErrorEvent(const base::Status& status) const;
  // Renderers of one kind with the same key render events in the same way, except the first event
  // of a table.
  std::string event_key() const;

 private:
  enum class Include { kMetadata, kObject, kNone };
  Renderer(KindPtr kind, const base::Clock& clock)
      : kind_(std::move(kind)), info_(kind_->info), clock_(&clock) {}
  // Renders the object as JSON text in the renderer's form; a table gets columns if it is the
  // `first`.
  std::string RenderObject(const store::Record& record, bool first) const;
  std::string MakeBookmark(store::Revision revision, bool initial_events_end) const;
  std::string EncodeEvent(std::string_view type, std::string_view object) const;
  std::string list_api_version() const;
  std::string list_kind() const;
  std::string RenderColumns() const;
  std::string RenderRow(const store::Record& record) const;
  std::string RenderPartial(const store::Record& record) const;

  KindPtr kind_;
  const api::KindInfo* info_;  // of kind_
  const base::Clock* clock_;
  Form form_ = Form::kObject;
  Format format_ = Format::kJson;
  const api::Schema* schema_ = nullptr;  // of the objects in the renderer's form; null for tables
  std::string meta_version_ = "v1";      // of meta.k8s.io, as the client asked
  Include include_ = Include::kMetadata;
};

}  // namespace berth::apiserver
