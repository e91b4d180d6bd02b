#include "apiserver/renderer.h"

#include "api/codecs/protobuf.h"
#include "api/codecs/yaml.h"
#include "apiserver/documents/table.h"
#include "apiserver/formats/kube_status.h"
#include "apiserver/kinds/stored_form.h"

namespace berth::apiserver {

using base::Json;

base::StatusOr<Renderer> Renderer::ForRequest(const ResourceRequest& request,
                                              const base::Clock& clock) {
  Renderer renderer(request.rules, clock);
  const bool watch = request.verb == "watch";
  for (const MediaRange& range : ParseAccept(request.exchange->request().Header("Accept"))) {
    const std::string_view as = range.Parameter("as");
    const std::string_view version = range.Parameter("v");
    if (!as.empty() &&
        (range.Parameter("g") != "meta.k8s.io" || (version != "v1" && version != "v1beta1"))) {
      continue;
    }
    const api::Schema* schema = request.rules->schema;
    if (as == "Table") {
      schema = nullptr;  // a table cannot be a protobuf message
    } else if (as == "PartialObjectMetadata" || as == "PartialObjectMetadataList") {
      schema = api::NamedSchema("PartialObjectMetadata");
    } else if (!as.empty()) {
      continue;
    }
    const auto format = FormatIn(range, schema);
    // YAML is not offered for watches, because it cannot mark where an event ends, nor for tables,
    // because no client asks for it.
    if (!format || (*format == Format::kYaml && (watch || as == "Table"))) continue;
    if (*format == Format::kProtobuf && version == "v1beta1") continue;
    renderer.format_ = *format;
    renderer.schema_ = schema;
    if (as.empty()) return renderer;
    renderer.meta_version_ = version;
    renderer.form_ = as == "Table" ? Form::kTable : Form::kPartial;
    const std::string& include = request.query.Get("includeObject");
    if (as == "Table" && !include.empty() && include != "Metadata" && include != "Object" &&
        include != "None") {
      return KubeError(
          Reason::kBadRequest,
          fmt::format("Unable to convert to Table as requested: includeObject: Invalid "
                      "value: {}: must be 'Metadata', 'Object', 'None', or empty",
                      base::json::Dump(include)));
    }
    renderer.include_ = include == "Object" ? Include::kObject
                        : include == "None" ? Include::kNone
                                            : Include::kMetadata;
    return renderer;
  }
  return NotAcceptableError(request.exchange->request(), request.rules->schema,
                            request.name.empty());
}

std::string Renderer::watch_content_type() const {
  return format_ == Format::kJson ? content_type() : content_type() + ";stream=watch";
}

std::string Renderer::RenderColumns() const {
  return base::json::Dump(kind_->columns != nullptr ? kind_->columns() : TableColumns(*info_));
}

// Works without parsing, because the garbage collector receives each change of each kind in this
// form.
std::string Renderer::RenderPartial(const store::Record& record) const {
  std::string out;
  AppendWithRevision(
      out,
      fmt::format(
          R"({{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/{}","metadata":{}}})",
          meta_version_, StoredMetadata(*record.value)),
      record.revision);
  return out;
}

std::string Renderer::RenderRow(const store::Record& record) const {
  Json object = DecodeRecord(record).value_or(Json::object());
  // The columns of built-in kinds read the stored form. Those of custom resources read the form of
  // their version.
  Json cells;
  if (kind_->cells == nullptr) cells = TableCells(*info_, object, clock_->Now());
  ConvertFromStored(*kind_, object);
  if (kind_->cells != nullptr) cells = kind_->cells(object, clock_->Now());
  std::string row = R"({"cells":)" + base::json::Dump(cells);
  switch (include_) {
    case Include::kNone:
      return row + "}";
    case Include::kObject:
      return row + R"(,"object":)" + base::json::Dump(object) + "}";
    case Include::kMetadata:
      return row + R"(,"object":)" + RenderPartial(record) + "}";
  }
  return row;
}

std::string Renderer::RenderObject(const store::Record& record, bool first) const {
  switch (form_) {
    case Form::kObject:
      return TextAs(*kind_, *record.value, record.revision);
    case Form::kPartial:
      return RenderPartial(record);
    case Form::kTable:
      return fmt::format(
          R"({{"kind":"Table","apiVersion":"meta.k8s.io/{}","metadata":{{"resourceVersion":"{}"}},)"
          R"("columnDefinitions":{},"rows":[{}]}})",
          meta_version_, record.revision, first ? RenderColumns() : "null", RenderRow(record));
  }
  return {};
}

std::string Renderer::RenderOne(const store::Record& record) const {
  std::string text = RenderObject(record, true);
  if (format_ == Format::kJson) return text;
  return WriteObject(format_, text).value_or("");
}

std::string Renderer::list_api_version() const {
  return form_ == Form::kObject ? info_->api_version() : "meta.k8s.io/" + meta_version_;
}

std::string Renderer::list_kind() const {
  return form_ == Form::kObject    ? kind_->list()
         : form_ == Form::kPartial ? "PartialObjectMetadataList"
                                   : "Table";
}

namespace {

// The protobuf field numbers that all lists share.
constexpr int kListMetadata = 1;
constexpr int kListItems = 2;

Json ListMetadata(const Renderer::ListEnd& end) {
  Json metadata = {{"resourceVersion", std::to_string(end.revision)}};
  if (end.remaining > 0) metadata["remainingItemCount"] = end.remaining;
  if (!end.continue_token.empty()) metadata["continue"] = std::string(end.continue_token);
  return metadata;
}

}  // namespace

std::string Renderer::RenderListHead() const {
  if (format_ == Format::kYaml) return fmt::format("apiVersion: {}\nitems:", list_api_version());
  return fmt::format(R"({{"kind":"{}","apiVersion":"{}",{}:[)", list_kind(), list_api_version(),
                     form_ == Form::kTable
                         ? fmt::format(R"("columnDefinitions":{},"rows")", RenderColumns())
                         : R"("items")");
}

std::string Renderer::RenderSizedListHead(size_t items_bytes, const ListEnd& end) const {
  std::string message;
  api::AppendMessage(*api::NamedSchema("ListMeta"), base::json::Dump(ListMetadata(end)), message);
  std::string metadata;
  api::AppendField(kListMetadata, message, metadata);
  return api::MakeEnvelopeHead(list_api_version(), list_kind(), metadata.size() + items_bytes) +
         metadata;
}

void Renderer::AppendItem(std::string& out, const store::Record& record, bool first) const {
  switch (format_) {
    case Format::kJson:
      if (!first) out += ',';
      if (form_ == Form::kObject) return AppendAs(*kind_, out, *record.value, record.revision);
      out += form_ == Form::kPartial ? RenderPartial(record) : RenderRow(record);
      return;
    case Format::kYaml:
      if (first) out += '\n';
      out += api::ToYaml(Json::array({Json::parse(RenderObject(record, false), nullptr, false)}));
      return;
    case Format::kProtobuf: {
      std::string message;
      api::AppendMessage(*schema_, RenderObject(record, false), message);
      return api::AppendField(kListItems, message, out);
    }
  }
}

std::string Renderer::RenderListTail(const ListEnd& end, bool empty) const {
  switch (format_) {
    case Format::kJson:
      return fmt::format(R"(],"metadata":{}}})", base::json::Dump(ListMetadata(end)));
    case Format::kYaml:
      return (empty ? " []\n" : "") +
             api::ToYaml({{"kind", list_kind()}, {"metadata", ListMetadata(end)}});
    case Format::kProtobuf:
      return std::string(api::MakeEnvelopeTail());
  }
  return {};
}

std::string Renderer::EncodeEvent(std::string_view type, std::string_view object) const {
  if (format_ == Format::kProtobuf) {
    return http::EncodeChunk(api::MakeWatchFrame(type, WriteObject(format_, object).value_or("")));
  }
  return http::EncodeChunk(fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, object));
}

std::string Renderer::RenderEvent(std::string_view type, const store::Record& record,
                                  bool first) const {
  return EncodeEvent(type, RenderObject(record, first));
}

std::string Renderer::RenderBookmark(store::Revision revision, bool initial_events_end) const {
  return EncodeEvent("BOOKMARK", MakeBookmark(revision, initial_events_end));
}

std::string Renderer::RenderErrorEvent(const base::Status& status) const {
  return EncodeEvent("ERROR", base::json::Dump(StatusObject(status)));
}

std::string Renderer::MakeBookmark(store::Revision revision, bool initial_events_end) const {
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
  return fmt::format("{}/{}/{}/{}/{}", static_cast<int>(form_), static_cast<int>(format_),
                     meta_version_, static_cast<int>(include_), info_->api_version());
}

}  // namespace berth::apiserver
