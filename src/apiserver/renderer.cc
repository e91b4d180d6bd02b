#include "apiserver/renderer.h"

#include "apiserver/kube_status.h"
#include "apiserver/media_range.h"
#include "apiserver/stored_form.h"
#include "apiserver/table.h"

namespace berth::apiserver {

using base::Json;

base::StatusOr<Renderer> Renderer::For(KindPtr kind, const Request& request, const Query& query,
                                       const base::Clock& clock) {
  Renderer renderer(std::move(kind), clock);
  for (const MediaRange& range : ParseAccept(request.Header("Accept"))) {
    if (!range.Includes("application/json")) continue;
    const std::string_view as = range.Parameter("as");
    const std::string_view version = range.Parameter("v");
    if (as.empty()) return renderer;
    if (range.Parameter("g") != "meta.k8s.io" || (version != "v1" && version != "v1beta1"))
      continue;
    renderer.meta_version_ = version;
    if (as == "Table") {
      renderer.form_ = Form::kTable;
      const std::string& include = query.Get("includeObject");
      renderer.include_ = include == "Object" ? Include::kObject
                          : include == "None" ? Include::kNone
                                              : Include::kMetadata;
      return renderer;
    }
    if (as == "PartialObjectMetadata" || as == "PartialObjectMetadataList") {
      renderer.form_ = Form::kPartial;
      return renderer;
    }
  }
  return KubeError(Reason::kNotAcceptable,
                   "only the following media types are accepted: application/json");
}

std::string Renderer::Columns() const { return base::json::Dump(TableColumns(*info_)); }

std::string Renderer::Partial(const store::Record& record) const {
  const Json object = DecodeRecord(record).value_or(Json::object());
  return base::json::Dump({{"kind", "PartialObjectMetadata"},
                           {"apiVersion", "meta.k8s.io/" + meta_version_},
                           {"metadata", base::json::Map(object, {"metadata"})}});
}

std::string Renderer::Row(const store::Record& record) const {
  Json object = DecodeRecord(record).value_or(Json::object());
  std::string row = R"({"cells":)" + base::json::Dump(TableCells(*info_, object, clock_->Now()));
  ConvertFromStored(*info_, object);
  switch (include_) {
    case Include::kNone:
      return row + "}";
    case Include::kObject:
      return row + R"(,"object":)" + base::json::Dump(object) + "}";
    case Include::kMetadata:
      return row + R"(,"object":)" + Partial(record) + "}";
  }
  return row;
}

std::string Renderer::One(const store::Record& record) const {
  switch (form_) {
    case Form::kObject:
      return TextAs(*info_, *record.value, record.revision);
    case Form::kPartial:
      return Partial(record);
    case Form::kTable:
      return EventObject(record, true);
  }
  return {};
}

std::string Renderer::ListHead() const {
  switch (form_) {
    case Form::kObject:
      return fmt::format(R"({{"kind":"{}List","apiVersion":"{}","items":[)", info_->kind,
                         info_->api_version());
    case Form::kPartial:
      return fmt::format(
          R"({{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/{}","items":[)",
          meta_version_);
    case Form::kTable:
      return fmt::format(
          R"({{"kind":"Table","apiVersion":"meta.k8s.io/{}","columnDefinitions":{},"rows":[)",
          meta_version_, Columns());
  }
  return {};
}

void Renderer::AppendItem(std::string& out, const store::Record& record) const {
  switch (form_) {
    case Form::kObject:
      return AppendAs(*info_, out, *record.value, record.revision);
    case Form::kPartial:
      out += Partial(record);
      return;
    case Form::kTable:
      out += Row(record);
      return;
  }
}

std::string Renderer::ListTail(store::Revision revision, std::string_view continue_token,
                               int64_t remaining) const {
  Json metadata = {{"resourceVersion", std::to_string(revision)}};
  if (remaining > 0) metadata["remainingItemCount"] = remaining;
  if (!continue_token.empty()) metadata["continue"] = std::string(continue_token);
  return fmt::format(R"(],"metadata":{}}})", base::json::Dump(metadata));
}

std::string Renderer::EventObject(const store::Record& record, bool first) const {
  if (form_ != Form::kTable) return One(record);
  return fmt::format(
      R"({{"kind":"Table","apiVersion":"meta.k8s.io/{}","metadata":{{"resourceVersion":"{}"}},)"
      R"("columnDefinitions":{},"rows":[{}]}})",
      meta_version_, record.revision, first ? Columns() : "null", Row(record));
}

std::string Renderer::BookmarkObject(store::Revision revision, bool initial_events_end) const {
  Json metadata = {{"resourceVersion", std::to_string(revision)}};
  if (initial_events_end) metadata["annotations"] = {{"k8s.io/initial-events-end", "true"}};
  switch (form_) {
    case Form::kObject:
      return base::json::Dump({{"kind", std::string(info_->kind)},
                               {"apiVersion", info_->api_version()},
                               {"metadata", metadata}});
    case Form::kPartial:
      return base::json::Dump({{"kind", "PartialObjectMetadata"},
                               {"apiVersion", "meta.k8s.io/" + meta_version_},
                               {"metadata", metadata}});
    case Form::kTable:
      return base::json::Dump({{"kind", "Table"},
                               {"apiVersion", "meta.k8s.io/" + meta_version_},
                               {"metadata", metadata},
                               {"columnDefinitions", nullptr},
                               {"rows", Json::array()}});
  }
  return {};
}

std::string Renderer::event_key() const {
  return fmt::format("{}/{}/{}/{}", static_cast<int>(form_), meta_version_,
                     static_cast<int>(include_), info_->api_version());
}

}  // namespace berth::apiserver
