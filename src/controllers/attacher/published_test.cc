#include "controllers/attacher/published.h"

#include "controllers/fake_cluster.h"

namespace berth::controllers::attacher {
namespace {

using base::StatusCode;

class PublishedTest : public ::testing::Test {
 protected:
  PublishedTest() : driver_(cluster_.AddDriver({.endless_pages = true})) {}
  base::Status List() {
    return ListPublished(driver_, 1, std::chrono::seconds(5),
                         Pages("volumes", stop_.get_token(), {.pages = 20}))
        .status();
  }

  FakeCluster cluster_;
  DriverConnection& driver_;
  std::stop_source stop_;
};

TEST_F(PublishedTest, PagesWithoutEndAreLeft) {
  const base::Status status = List();
  EXPECT_EQ(base::Message(status), "the driver's pages of volumes do not end: 20 were read");
}

TEST_F(PublishedTest, AStopDoesNotWaitForTheLastPage) {
  stop_.request_stop();
  EXPECT_EQ(List().code(), StatusCode::kAborted);
  EXPECT_EQ(cluster_.driver->script().Count("ListVolumes"), 1);
}

}  // namespace
}  // namespace berth::controllers::attacher
