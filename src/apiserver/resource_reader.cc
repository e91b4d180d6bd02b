#include "apiserver/resource_reader.h"

#include "apiserver/formats/media_range.h"
#include "apiserver/formats/object_text.h"
#include "apiserver/formats/reply_encoder.h"
#include "apiserver/renderer.h"
#include "apiserver/requests/list_options.h"

namespace berth::apiserver {

using base::Status;
using base::StatusCode;

namespace {

constexpr size_t kListPage = 500;
// A list is sent in chunks of about this size.
constexpr size_t kListChunk = 256 * 1024;
// If the size of a list must be known first, a list of up to this size is kept in memory.
constexpr size_t kMaxKeptList = 4 * kListChunk;
// A list yields its worker after this many records, because a selector may match few of them.
constexpr size_t kListTurn = 2000;

// One list request, from its first page to its end. The jobs that continue it own the object.
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
      if (query_.from->revision != ContinueToken::kNow) at_ = query_.from->revision;
    } else if (query_.exact) {
      at_ = query_.revision;
    }
    NarrowToName();
  }

  // Breaks the stream if the list is incomplete, so that the client does not take it for a whole
  // list.
  ~ListRun() {
    if (encoder_ && !ended_) request_.exchange->BreakStream();
  }

  // Runs on a worker. Reads and sends until a chunk waits for the client, or until it has read
  // kListTurn records, because other requests need the worker.
  void Run() {
    if (!begun_) StartList();
    size_t looked_at = 0;
    while (!done_) {
      if (const Status status = ReadPage(looked_at); !status.ok()) {
        // After the head was sent, only a broken stream can tell the client about an error.
        if (!encoder_) ReplyError(*request_.exchange, status);
        return;
      }
      if (done_) break;
      if (measuring_ && out_.size() >= kMaxKeptList) CountMeasured();
      if (!measuring_ && out_.size() >= kListChunk) return SendChunk();
      if (looked_at >= kListTurn) {
        if (!request_.exchange->over()) ContinueLater();
        return;
      }
    }
    if (measuring_ && measured_ > 0) return SendMeasured();
    const Renderer::ListEnd end = ListEnd();
    if (measuring_) out_.insert(0, renderer_.RenderSizedListHead(out_.size(), end));
    out_ += renderer_.RenderListTail(end, count_ == 0);
    SendRest();
  }

 private:
  Renderer::ListEnd ListEnd() const {
    return {.revision = at_, .continue_token = continue_token_, .remaining = remaining_};
  }

  void StartList() {
    begun_ = true;
    start_ = after_;
    measuring_ = renderer_.needs_size();
    if (!measuring_) out_ = renderer_.RenderListHead();
  }

  // A list whose size must be sent before its items, and that is too large to keep in memory, is
  // read twice at the same revision: first to measure it, then to send it.
  void CountMeasured() {
    measured_ += out_.size();
    out_.clear();
  }
  void SendMeasured() {
    CountMeasured();
    measuring_ = false;
    out_ = renderer_.RenderSizedListHead(measured_, ListEnd());
    after_ = start_;
    count_ = 0;
    done_ = false;
    ContinueLater();
  }

  // Makes a list with a selector by name read only that object: a page of one record that starts
  // just before its key. No other key lies between, because no valid name has a character above
  // 'z'.
  void NarrowToName() {
    const auto name = query_.selection.fields.RequiredValue("metadata.name");
    if (!name || name->empty() || query_.from) return;
    if (request_.info().namespaced && request_.ns.empty()) return;
    only_key_ = prefix_ + *name;
    after_ = only_key_;
    --after_.back();
    after_ += '\x7f';
  }

  Status ReadPage(size_t& looked_at) {
    const size_t page_size = only_key_.empty() ? kListPage : 1;
    auto page = context_.store.List(prefix_, after_, page_size, at_);
    if (!page.ok()) return ListError(page.status());
    at_ = page->revision;
    looked_at += page->records.size();
    for (const store::Record& record : page->records) {
      if (!only_key_.empty() && record.key != only_key_) break;
      if (query_.limit > 0 && count_ == query_.limit) return EndPage();
      after_ = record.key;
      if (!query_.selection.selects_all()) {
        const auto object = DecodeStored(*record.value);
        if (!object.ok()) return object.status();
        if (!query_.selection.Matches(*object)) continue;
      }
      renderer_.AppendItem(out_, record, count_++ == 0);
    }
    done_ = !page->more || !only_key_.empty();
    return base::OkStatus();
  }

  // Ends the list with a continue token, because it has `limit` objects and more objects follow.
  Status EndPage() {
    // With a selector the remaining number is omitted, because counting would read all objects.
    if (query_.selection.selects_all()) {
      if (query_.from && query_.from->remaining) {
        remaining_ = *query_.from->remaining - static_cast<int64_t>(count_);
      } else {
        auto count = context_.store.Count(prefix_, after_, at_);
        if (!count.ok()) return ListError(count.status());
        remaining_ = static_cast<int64_t>(*count);
      }
    }
    ContinueToken token{.revision = at_, .start = after_.substr(prefix_.size())};
    if (remaining_ > 0) token.remaining = remaining_;
    continue_token_ = EncodeContinue(token);
    done_ = true;
    return base::OkStatus();
  }

  Status ListError(const Status& status) {
    if (status.code() != StatusCode::kOutOfRange) return status;
    if (at_ > context_.store.current()) return TooLargeRevisionError(at_, context_.store.current());
    if (query_.from) {
      // The new token continues at the same place, but in the current objects. A client may use it
      // if it accepts that the parts of its list are of different revisions.
      return KubeError(
          Reason::kExpired,
          "The provided continue parameter is too old to display a consistent list result. "
          "You can start a new list without the continue parameter, or use the continue "
          "token in this response to retrieve the remainder of the results. Continuing with "
          "the provided token results in an inconsistent list - objects that were created, "
          "modified, or deleted between the time the first chunk was returned and now may "
          "show up in the list.",
          {.continue_token = EncodeContinue({.start = query_.from->start})});
    }
    return KubeError(Reason::kExpired,
                     fmt::format("The resourceVersion for the provided list is too old: {}", at_));
  }

  void ContinueLater() {
    const bool posted = context_.workers.Post(request_.exchange->request(),
                                              [self = shared_from_this()] { self->Run(); });
    // Without its head the answer can still be an error; otherwise the destructor breaks it off.
    if (!posted && !encoder_) {
      ReplyError(*request_.exchange, KubeError(Reason::kServiceUnavailable,
                                               "the server cannot go on with the list now"));
    }
  }

  // Sends the gathered text and continues when the text is written.
  void SendChunk() {
    http::Exchange& exchange = *request_.exchange;
    if (!encoder_) {
      encoder_.emplace(ReplyEncoder::Options{
          .pretty = renderer_.format() == Format::kJson && WantsPretty(exchange.request()),
          .gzip = out_.size() > kGzipFrom && AcceptsGzip(exchange.request())});
      http::Response head{.content_type = renderer_.content_type()};
      encoder_->AddHeaders(head);
      exchange.StartStream(head);
    }
    const std::string chunk =
        http::EncodeChunk(encoder_->EncodePiece(std::exchange(out_, std::string())));
    if (chunk.empty()) return ContinueLater();  // the compressor has no output yet
    if (!exchange.PushPage(http::MakeFrame(chunk))) {
      ended_ = true;
      return;
    }
    exchange.OnDrained([self = shared_from_this()] { self->ContinueLater(); });
  }

  void SendRest() {
    ended_ = true;
    http::Exchange& exchange = *request_.exchange;
    if (!encoder_) {
      return Reply(exchange, {.content_type = renderer_.content_type(), .body = std::move(out_)});
    }
    std::string rest = encoder_->EncodePiece(std::move(out_));
    rest += encoder_->Finish();
    exchange.PushPage(http::MakeFrame(http::EncodeChunk(rest)));
    exchange.EndStream();
  }

  ApiContext& context_;
  const ResourceRequest request_;
  const ListQuery query_;
  const Renderer renderer_;
  std::string prefix_;
  std::string only_key_;    // the key of the only object that can match; "": any key of prefix_
  std::string after_;       // the last key that was read
  store::Revision at_ = 0;  // the revision of the list; 0: the current revision
  size_t count_ = 0;        // the number of objects in the list so far
  bool begun_ = false;
  bool measuring_ = false;
  size_t measured_ = 0;  // bytes of items that were measured and not kept
  std::string start_;    // the start key of the list
  bool done_ = false;    // all records are read
  bool ended_ = false;   // the whole list is sent, or the client is gone
  std::string continue_token_;
  int64_t remaining_ = 0;
  std::string out_;                      // text that is gathered and not yet sent
  std::optional<ReplyEncoder> encoder_;  // set for a list that is sent in chunks
};

}  // namespace

Status TooLargeRevisionError(store::Revision asked, store::Revision current) {
  return KubeError(
      Reason::kTimeout,
      fmt::format("Timeout: Too large resource version: {}, current: {}", asked, current),
      {.causes = {{.reason = "ResourceVersionTooLarge", .message = "Too large resource version"}},
       .retry_after_seconds = 1});
}

void ResourceReader::Get(const ResourceRequest& request) {
  const auto get = [&]() -> Status {
    ASSIGN_OR_RETURN(const Renderer renderer, Renderer::ForRequest(request, context_.clock));
    ASSIGN_OR_RETURN(const store::Revision least, ParseRevision(request.query));
    if (least > context_.store.current()) {
      return TooLargeRevisionError(least, context_.store.current());
    }
    const auto record =
        context_.store.Get(ObjectStoreKey(request.info(), request.ns, request.name));
    if (!record.ok()) {
      return record.status().code() == StatusCode::kNotFound
                 ? NotFoundError(request.info(), request.name)
                 : record.status();
    }
    Reply(*request.exchange,
          {.content_type = renderer.content_type(), .body = renderer.RenderOne(*record)});
    return base::OkStatus();
  };
  if (const Status status = get(); !status.ok()) ReplyError(*request.exchange, status);
}

void ResourceReader::List(const ResourceRequest& request) {
  const auto list = [&]() -> Status {
    ASSIGN_OR_RETURN(Renderer renderer, Renderer::ForRequest(request, context_.clock));
    ASSIGN_OR_RETURN(ListQuery query, ParseListQuery(request));
    const store::Revision current = context_.store.current();
    if (query.revision > current) return TooLargeRevisionError(query.revision, current);
    std::make_shared<ListRun>(context_, request, std::move(query), std::move(renderer))->Run();
    return base::OkStatus();
  };
  if (const Status status = list(); !status.ok()) ReplyError(*request.exchange, status);
}

}  // namespace berth::apiserver
