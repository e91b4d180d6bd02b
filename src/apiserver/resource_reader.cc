#include "apiserver/resource_reader.h"

#include "apiserver/list_options.h"
#include "apiserver/object_text.h"
#include "apiserver/renderer.h"

namespace berth::apiserver {

using base::Status;
using base::StatusCode;

namespace {

constexpr size_t kPage = 100;
// What is gathered before it goes to the client.
constexpr size_t kChunk = 256 * 1024;

// One list, from its first page to its end. Owned by the jobs that carry it on.
class ListRun : public std::enable_shared_from_this<ListRun> {
 public:
  ListRun(ApiContext& context, const ResourceRequest& request, ListQuery query, Renderer renderer)
      : context_(context),
        request_(request),
        query_(std::move(query)),
        renderer_(std::move(renderer)),
        prefix_(KeyPrefix(request.info(), request.ns)) {
    if (query_.from) {
      after_ = prefix_ + query_.from->start;
      at_ = query_.from->revision;
    } else if (query_.exact) {
      at_ = query_.revision;
    }
    NarrowToName();
  }

  // On a worker: reads and sends pages until the client has to catch up.
  void Run() {
    Exchange& exchange = *request_.exchange;
    std::string out;
    if (!started_) out = renderer_.ListHead();
    while (!done_) {
      if (const Status status = ReadPage(out); !status.ok()) {
        // Once the head is out, a list that breaks off is all there is left to say.
        if (!started_) ReplyError(exchange, status);
        return;
      }
      if (!done_ && out.size() >= kChunk) return Send(std::move(out));
    }
    out += renderer_.ListTail(at_, continue_token_);
    if (!started_) return ReplyJson(exchange, 200, std::move(out));
    exchange.PushPage(MakeFrame(EncodeChunk(out)));
    exchange.EndStream();
  }

 private:
  // A selector by name reads that one object: a page of one that begins just before its key. No
  // valid name has a character above 'z', so nothing lies between.
  void NarrowToName() {
    const auto name = query_.selection.fields.RequiredValue("metadata.name");
    if (!name || name->empty() || query_.from) return;
    if (request_.info().namespaced && request_.ns.empty()) return;
    only_key_ = prefix_ + *name;
    after_ = only_key_;
    --after_.back();
    after_ += '\x7f';
  }

  Status ReadPage(std::string& out) {
    const size_t page_size = only_key_.empty() ? kPage : 1;
    auto page = context_.store.List(prefix_, after_, page_size, at_);
    if (!page.ok()) return ListError(page.status());
    at_ = page->revision;
    for (const store::Record& record : page->records) {
      if (!only_key_.empty() && record.key != only_key_) break;
      if (query_.limit > 0 && count_ == query_.limit) {
        continue_token_ = EncodeContinue({.revision = at_, .start = after_.substr(prefix_.size())});
        done_ = true;
        return base::OkStatus();
      }
      after_ = record.key;
      if (!query_.selection.everything()) {
        const auto object = DecodeStored(*record.value);
        if (!object.ok()) return object.status();
        if (!query_.selection.Matches(*object)) continue;
      }
      if (count_++ > 0) out += ',';
      renderer_.AppendItem(out, record);
    }
    done_ = !page->more || !only_key_.empty();
    return base::OkStatus();
  }

  Status ListError(const Status& status) {
    if (status.code() != StatusCode::kOutOfRange) return status;
    if (query_.from) {
      // A fresh token goes on from the same place in what is there now: the client may take it, if
      // it can live with a list that is not of one moment.
      return KubeError(
          Reason::kExpired,
          "The provided continue parameter is too old to display a consistent list result. "
          "You can start a new list without the continue parameter, or use the continue "
          "token in this response to retrieve the remainder of the results. Continuing with "
          "the provided token results in an inconsistent list - objects that were created, "
          "modified, or deleted between the time the first chunk was returned and now may "
          "show up in the list.",
          {.continue_token = EncodeContinue({.revision = 0, .start = query_.from->start})});
    }
    return KubeError(Reason::kExpired,
                     fmt::format("The resourceVersion for the provided list is too old: {}", at_));
  }

  void Send(std::string out) {
    Exchange& exchange = *request_.exchange;
    if (!started_) exchange.StartStream({});
    started_ = true;
    if (!exchange.PushPage(MakeFrame(EncodeChunk(out)))) return;
    exchange.OnDrained(
        [self = shared_from_this()] { self->context_.workers.Post([self] { self->Run(); }); });
  }

  ApiContext& context_;
  const ResourceRequest request_;
  const ListQuery query_;
  const Renderer renderer_;
  std::string prefix_;
  std::string only_key_;
  std::string after_;
  store::Revision at_ = 0;
  size_t count_ = 0;
  bool started_ = false;
  bool done_ = false;
  std::string continue_token_;
};

}  // namespace

Status TooLargeRevision(store::Revision asked, store::Revision current) {
  return KubeError(
      Reason::kTimeout, fmt::format("Too large resource version: {}, current: {}", asked, current),
      {.causes = {{.reason = "ResourceVersionTooLarge", .message = "Too large resource version"}},
       .retry_after_seconds = 1});
}

void ResourceReader::Get(const ResourceRequest& request) {
  const auto get = [&]() -> Status {
    ASSIGN_OR_RETURN(
        const Renderer renderer,
        Renderer::For(request.rules, request.exchange->request(), request.query, context_.clock));
    const auto record =
        context_.store.Get(ObjectStoreKey(request.info(), request.ns, request.name));
    if (!record.ok()) {
      return record.status().code() == StatusCode::kNotFound
                 ? NotFoundError(request.info(), request.name)
                 : record.status();
    }
    ReplyJson(*request.exchange, 200, renderer.One(*record));
    return base::OkStatus();
  };
  if (const Status status = get(); !status.ok()) ReplyError(*request.exchange, status);
}

void ResourceReader::List(const ResourceRequest& request) {
  const auto list = [&]() -> Status {
    ASSIGN_OR_RETURN(Renderer renderer, Renderer::For(request.rules, request.exchange->request(),
                                                      request.query, context_.clock));
    ASSIGN_OR_RETURN(ListQuery query, ParseListQuery(request));
    const store::Revision current = context_.store.current();
    if (query.revision > current) return TooLargeRevision(query.revision, current);
    std::make_shared<ListRun>(context_, request, std::move(query), std::move(renderer))->Run();
    return base::OkStatus();
  };
  if (const Status status = list(); !status.ok()) ReplyError(*request.exchange, status);
}

}  // namespace berth::apiserver
