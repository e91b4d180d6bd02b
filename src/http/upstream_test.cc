#include "http/upstream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>

namespace berth::http {
namespace {

TEST(UpstreamTest, OneThatHasMuchToReadLetsOthersHaveTheirTurn) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const base::UniqueFd far(ends[1]);
  boost::asio::io_context loop;
  const auto owner = std::make_shared<int>();
  size_t got = 0;
  bool ended = false;
  Upstream upstream(loop, owner,
                    {.on_bytes =
                         [&](const std::string& bytes) {
                           got += bytes.size();
                           return true;
                         },
                     .on_writable = [] {},
                     .on_end = [&] { ended = true; }});
  ASSERT_TRUE(upstream.AdoptStream(base::UniqueFd(ends[0])));
  const std::string piece(4096, 'x');
  size_t sent = 0;
  for (ssize_t n; (n = send(far.get(), piece.data(), piece.size(), MSG_NOSIGNAL)) > 0;) {
    sent += static_cast<size_t>(n);
  }
  ASSERT_GT(sent, Upstream::kBytesPerTurn + 16 * 1024);
  size_t got_before_another = 0;
  boost::asio::post(loop, [&] { got_before_another = got; });
  upstream.Read();
  shutdown(far.get(), SHUT_WR);
  loop.run();
  EXPECT_LT(got_before_another, sent) << "it is not read in one go";
  EXPECT_GT(got_before_another, 0u);
  EXPECT_EQ(got, sent) << "but all of it is read";
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace berth::http
