// The part of ResourceWriter for delete and deletecollection.

#include "api/selector.h"
#include "apiserver/kinds/stored_form.h"
#include "apiserver/kinds/write_rules.h"
#include "apiserver/requests/body_decoder.h"
#include "apiserver/resource_writer.h"
#include "base/log.h"

namespace berth::apiserver {

using base::Status;
using base::StatusCode;
using Action = Mutation::Plan::Action;

namespace {

constexpr size_t kCollectionPage = 500;

// The DeleteOptions of a delete without a body: the propagation options of its query; null if there
// are none.
Json PropagationOf(const http::Query& query) {
  Json options;
  if (const std::string& policy = query.Get("propagationPolicy"); !policy.empty()) {
    options["propagationPolicy"] = policy;
  }
  if (const std::string& orphan = query.Get("orphanDependents"); !orphan.empty()) {
    options["orphanDependents"] = orphan == "true" || orphan == "1";
  }
  return options;
}

base::StatusOr<DeleteRequest> DeleteRequestOf(const ResourceRequest& request) {
  static const api::Schema* const schema = api::NamedSchema("DeleteOptions");
  ASSIGN_OR_RETURN(Json body, DecodeBody(request, schema, "DeleteOptions"));
  if (body.is_null()) body = PropagationOf(request.query);
  ASSIGN_OR_RETURN(DeleteRequest options, ParseDeleteOptions(body));
  ASSIGN_OR_RETURN(const bool dry_run, IsDryRun(request.query));
  options.dry_run |= dry_run;
  if (const std::string& grace = request.query.Get("gracePeriodSeconds"); !grace.empty()) {
    ASSIGN_OR_RETURN(const Json number, base::json::Parse(grace));
    if (!number.is_number_integer()) {
      return KubeError(Reason::kBadRequest, "gracePeriodSeconds must be a whole number");
    }
    options.grace_seconds = number.get<int64_t>();
  }
  return options;
}

}  // namespace

void ResourceWriter::Delete(const ResourceRequest& request) {
  const auto run = [&]() -> Status {
    ASSIGN_OR_RETURN(const DeleteRequest options, DeleteRequestOf(request));
    if (request.rules->forbid_delete != nullptr) {
      RETURN_IF_ERROR(request.rules->forbid_delete(request.name));
    }
    RunMutation(
        request, options.dry_run,
        {.key = ObjectStoreKey(request.info(), request.ns, request.name),
         .attempts = options.resource_version.empty() ? kConflictAttempts : 1},
        [this, rules = request.rules, name = request.name,
         options](const store::Record* current) -> base::StatusOr<Mutation::Plan> {
          if (current == nullptr) return NotFoundError(*rules->info, name);
          return PlanDelete(*rules, *current, options, context_.clock.Now());
        },
        [rules = request.rules](http::Exchange& exchange, const Mutation::Result& result) {
          if (result.action != Action::kDelete || rules->delete_returns_object) {
            return ObjectRenderer(rules)(exchange, result);
          }
          const api::Object object(DecodeStored(result.text).value_or(Json::object()));
          ReplyObject(exchange, 200,
                      base::json::Dump(SuccessObject(*rules->info, object.name(), object.uid())));
        });
    return base::OkStatus();
  };
  if (const Status status = run(); !status.ok()) ReplyError(*request.exchange, status);
}

namespace {

// Collects the deleted objects. The destructor answers with them when the last delete is done,
// because each delete shares the object.
class DeletedList {
 public:
  DeletedList(std::shared_ptr<http::Exchange> exchange, KindPtr kind)
      : exchange_(std::move(exchange)), kind_(std::move(kind)), info_(*kind_->info) {}

  ~DeletedList() {
    base::MutexLock lock(mutex_);
    if (!failure_.ok()) ReplyError(*exchange_, failure_);
    // After an error this has no effect, because only the first answer of an exchange counts.
    ReplyObject(
        *exchange_, 200,
        fmt::format(R"({{"kind":"{}","apiVersion":"{}","metadata":{{"resourceVersion":"{}"}},)"
                    R"("items":[{}]}})",
                    kind_->list(), info_.api_version(), revision_, items_));
  }

  void Add(const base::StatusOr<Mutation::Result>& result) {
    base::MutexLock lock(mutex_);
    if (result.ok()) {
      if (!items_.empty()) items_ += ',';
      AppendAs(*kind_, items_, result->text, result->revision);
      revision_ = std::max(revision_, result->revision);
    } else if (failure_.ok() && result.status().code() != StatusCode::kNotFound) {
      failure_ = result.status();  // NOT_FOUND counts as deleted
    }
  }

 private:
  const std::shared_ptr<http::Exchange> exchange_;
  const KindPtr kind_;
  const api::KindInfo& info_;  // of kind_
  base::Mutex mutex_;
  std::string items_ ABSL_GUARDED_BY(mutex_);
  store::Revision revision_ ABSL_GUARDED_BY(mutex_) = 0;
  Status failure_ ABSL_GUARDED_BY(mutex_) = base::OkStatus();
};

}  // namespace

void ResourceWriter::DeleteCollection(const ResourceRequest& request) {
  const auto run = [&]() -> Status {
    ASSIGN_OR_RETURN(const DeleteRequest options, DeleteRequestOf(request));
    const api::KindInfo& info = request.info();
    if (&info == &api::kinds::kNamespace) {
      return KubeError(Reason::kMethodNotAllowed,
                       "the server does not allow this method on the requested resource");
    }
    auto labels = api::LabelSelector::Parse(request.query.Get("labelSelector"));
    auto fields = api::FieldSelector::Parse(info, request.query.Get("fieldSelector"),
                                            request.rules->selectable_fields);
    for (const Status& status : {labels.status(), fields.status()}) {
      if (!status.ok()) return KubeError(Reason::kBadRequest, base::Message(status));
    }
    const auto list = std::make_shared<DeletedList>(request.exchange, request.rules);
    std::string after;
    store::Revision at = 0;
    for (bool more = true; more;) {
      const auto page =
          context_.store.List(KeyPrefix(info, request.ns), after, kCollectionPage, at);
      if (!page.ok()) {
        list->Add(page.status());
        break;
      }
      at = page->revision;
      more = page->more;
      for (const store::Record& record : page->records) {
        after = record.key;
        const api::Object object(DecodeStored(*record.value).value_or(Json::object()));
        if (!labels->Matches(object.labels()) || !fields->Matches(object.json())) continue;
        StartMutation(
            options.dry_run, {.key = record.key, .attempts = kConflictAttempts},
            [this, rules = request.rules, options,
             name = object.name()](const store::Record* current) -> base::StatusOr<Mutation::Plan> {
              if (current == nullptr) return NotFoundError(*rules->info, name);
              return PlanDelete(*rules, *current, options, context_.clock.Now());
            },
            [list](const base::StatusOr<Mutation::Result>& result) { list->Add(result); });
      }
    }
    return base::OkStatus();
  };
  if (const Status status = run(); !status.ok()) ReplyError(*request.exchange, status);
}

}  // namespace berth::apiserver
